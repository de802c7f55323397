// SPDX-License-Identifier: Apache-2.0
//
// Flags that are valid, and a host to parse them on.

#ifndef QGEMM_TESTS_CLIENT_LOADTEST_LOADTEST_FLAGS_FIXTURE_H_
#define QGEMM_TESTS_CLIENT_LOADTEST_LOADTEST_FLAGS_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "loadtest/options.h"

namespace qgemm {

// Files that exist: /trace has 5 arrivals in 2.5 s, /model 3 layers.
inline absl::StatusOr<std::string> ReadFake(const std::string& path) {
  if (path == "/trace") return std::string("0\n0.5\n1\n2\n2.5\n");
  if (path == "/still") return std::string("0\n0\n");
  if (path == "/model") {
    return std::string("repeat 3\nup 64x128\nend\n");
  }
  if (path == "/bad") return std::string("what is this\n");
  return absl::NotFoundError(absl::StrCat(path, ": no such file"));
}

inline LoadtestHost Host(int cpus = 8) {
  LoadtestHost host;
  host.cpus = cpus;
  host.read_file = ReadFake;
  return host;
}

// A closed loop on one synthetic layer.
inline LoadtestFlags ValidFlags() {
  LoadtestFlags flags;
  flags.server = "unix:/run/qgemm.sock";
  flags.synthetic = "4096x14336";
  return flags;
}

// Which must succeed.
inline LoadtestOptions Parse(const LoadtestFlags& flags,
                             const LoadtestHost& host = Host()) {
  const absl::StatusOr<LoadtestOptions> options =
      ParseLoadtestOptions(flags, host);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : LoadtestOptions();
}

// Of valid flags with a change.
inline LoadtestOptions ParseWith(
    const std::function<void(LoadtestFlags*)>& change) {
  LoadtestFlags flags = ValidFlags();
  change(&flags);
  return Parse(flags);
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_LOADTEST_LOADTEST_FLAGS_FIXTURE_H_
