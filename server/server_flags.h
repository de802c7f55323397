// SPDX-License-Identifier: Apache-2.0
//
// The command line of qgemm_server (docs/operations.md).

#ifndef QGEMM_SERVER_SERVER_FLAGS_H_
#define QGEMM_SERVER_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/server.h"

namespace qgemm {

struct CommandLine {
  ServerOptions server;
  std::string port_file;  // empty = none
  absl::Duration drain_timeout;
};

// Reads flags. Exits with a message after --help, and for a flag that is not
// known or not legible. INVALID_ARGUMENT for what is not a flag.
absl::StatusOr<CommandLine> ParseServerFlags(int argc, char** argv);

// `arguments` with all of --name=a, --name b and -name=c joined into one
// --name=a,b,c in the place of the first.
std::vector<std::string> JoinRepeated(const std::vector<std::string>& arguments,
                                      absl::string_view name);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SERVER_FLAGS_H_
