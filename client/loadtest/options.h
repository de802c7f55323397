// SPDX-License-Identifier: Apache-2.0
//
// What a load test run is told: the flags as typed, checked and turned into
// values. No flag library here; main.cc reads the command line.

#ifndef QGEMM_CLIENT_LOADTEST_OPTIONS_H_
#define QGEMM_CLIENT_LOADTEST_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Which answers are checked, and how thoroughly (answer_checker.h).
enum class VerifyMode : uint8_t { kNone, kSample, kAll };

// The command line as typed.
struct LoadtestFlags {
  std::string server;
  std::string weights;
  std::string synthetic;
  std::string format = "kbit4";
  std::string dtype = "fp16";
  std::string out_dtype;
  std::string mode = "A16";
  std::string verify = "none";
  std::string json;
  int64_t m = 1;
  int concurrency = 1;
  int connections = 1;
  int inputs = 8;
  absl::Duration duration = absl::Seconds(10);
  absl::Duration warmup = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(30);
  uint64_t seed = 1;
};

// The shape of weights that the run uploads for itself and removes again.
struct SyntheticShape {
  int64_t k = 0;
  int64_t n = 0;
};

struct LoadtestOptions {
  std::string server;
  // A name or id on the server; empty if `synthetic` is used.
  std::string weights;
  SyntheticShape synthetic;
  std::string format;  // of synthetic weights
  FloatType a_type = FloatType::kFloat16;
  FloatType c_type = FloatType::kFloat16;
  ComputeMode mode = ComputeMode::kA16;
  VerifyMode verify = VerifyMode::kNone;
  std::string json_path;  // empty: no file
  int64_t m = 1;          // rows a request
  int concurrency = 1;    // requests in flight
  int connections = 1;    // that they share
  int inputs = 8;         // distinct activation matrices, used in turn
  absl::Duration duration;
  absl::Duration warmup;
  absl::Duration timeout;  // of one request
  uint64_t seed = 1;

  bool is_synthetic() const { return weights.empty(); }
};

// Errors: INVALID_ARGUMENT that names the flag, its value and what is legal.
absl::StatusOr<LoadtestOptions> ParseLoadtestOptions(
    const LoadtestFlags& flags);

// "none", "sample", "all".
absl::string_view Name(VerifyMode mode);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_OPTIONS_H_
