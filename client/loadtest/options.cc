// SPDX-License-Identifier: Apache-2.0
//
// Parsing and range checks of the load test's flags.

#include "client/loadtest/options.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 20;
constexpr int kMaxConcurrency = 4096;
constexpr int kMaxConnections = 256;
constexpr int kMaxInputs = 4096;

absl::Status BadFlag(absl::string_view flag, absl::string_view value,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": must be ", legal));
}

absl::StatusOr<FloatType> ParseFloatType(absl::string_view flag,
                                         absl::string_view text) {
  for (FloatType type :
       {FloatType::kFloat32, FloatType::kFloat16, FloatType::kBFloat16}) {
    if (text == Name(type)) return type;
  }
  return BadFlag(flag, text, "fp32, fp16 or bf16");
}

absl::StatusOr<ComputeMode> ParseMode(absl::string_view text) {
  for (ComputeMode mode :
       {ComputeMode::kA16, ComputeMode::kA8, ComputeMode::kA32}) {
    if (absl::AsciiStrToUpper(text) == Name(mode)) return mode;
  }
  return BadFlag("mode", text, "A16, A8 or A32");
}

absl::StatusOr<VerifyMode> ParseVerify(absl::string_view text) {
  for (VerifyMode mode :
       {VerifyMode::kNone, VerifyMode::kSample, VerifyMode::kAll}) {
    if (text == Name(mode)) return mode;
  }
  return BadFlag("verify", text, "none, sample or all");
}

absl::StatusOr<SyntheticShape> ParseShape(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, 'x');
  SyntheticShape shape;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shape.k) ||
      !absl::SimpleAtoi(parts[1], &shape.n) || shape.k < 1 || shape.n < 1 ||
      shape.k > kMaxExtent || shape.n > kMaxExtent) {
    return BadFlag("synthetic", text,
                   absl::StrCat("KxN, each 1 to ", kMaxExtent));
  }
  return shape;
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return BadFlag(flag, absl::StrCat(value), absl::StrCat("1 to ", limit));
}

absl::Status CheckTimes(const LoadtestFlags& flags) {
  const absl::Duration limit = absl::Hours(24 * 365);
  if (flags.duration <= absl::ZeroDuration() || flags.duration > limit) {
    return BadFlag("duration", absl::FormatDuration(flags.duration),
                   "above 0 and at most a year");
  }
  if (flags.warmup < absl::ZeroDuration() || flags.warmup > limit) {
    return BadFlag("warmup", absl::FormatDuration(flags.warmup),
                   "0 or more and at most a year");
  }
  if (flags.timeout <= absl::ZeroDuration() || flags.timeout > limit) {
    return BadFlag("timeout", absl::FormatDuration(flags.timeout),
                   "above 0 and at most a year");
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const LoadtestFlags& flags) {
  RETURN_IF_ERROR(CheckRange("m", flags.m, kMaxExtent));
  RETURN_IF_ERROR(
      CheckRange("concurrency", flags.concurrency, kMaxConcurrency));
  RETURN_IF_ERROR(
      CheckRange("connections", flags.connections, kMaxConnections));
  return CheckRange("inputs", flags.inputs, kMaxInputs);
}

absl::Status CheckTarget(const LoadtestFlags& flags) {
  if (flags.server.empty()) {
    return BadFlag("server", "", "host:port or unix:path");
  }
  if (flags.weights.empty() == flags.synthetic.empty()) {
    return absl::InvalidArgumentError(
        "give either --weights=NAME or --synthetic=KxN");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadtestOptions> ParseLoadtestOptions(
    const LoadtestFlags& flags) {
  RETURN_IF_ERROR(CheckTarget(flags));
  RETURN_IF_ERROR(CheckCounts(flags));
  RETURN_IF_ERROR(CheckTimes(flags));
  LoadtestOptions options;
  options.server = flags.server;
  options.weights = flags.weights;
  if (!flags.synthetic.empty()) {
    ASSIGN_OR_RETURN(options.synthetic, ParseShape(flags.synthetic));
  }
  options.format = flags.format;
  ASSIGN_OR_RETURN(options.a_type, ParseFloatType("dtype", flags.dtype));
  options.c_type = options.a_type;
  if (!flags.out_dtype.empty()) {
    ASSIGN_OR_RETURN(options.c_type,
                     ParseFloatType("out_dtype", flags.out_dtype));
  }
  ASSIGN_OR_RETURN(options.mode, ParseMode(flags.mode));
  ASSIGN_OR_RETURN(options.verify, ParseVerify(flags.verify));
  options.json_path = flags.json;
  options.m = flags.m;
  options.concurrency = flags.concurrency;
  options.connections = flags.connections;
  options.inputs = flags.inputs;
  options.duration = flags.duration;
  options.warmup = flags.warmup;
  options.timeout = flags.timeout;
  options.seed = flags.seed;
  return options;
}

absl::string_view Name(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::kNone:
      return "none";
    case VerifyMode::kSample:
      return "sample";
    case VerifyMode::kAll:
      return "all";
  }
  return "";
}

}  // namespace qgemm
