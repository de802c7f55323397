// SPDX-License-Identifier: Apache-2.0
//
// Parsing of --arrivals.

#include "loadtest/schedule/arrival_process.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace qgemm {
namespace {

absl::Status BadArrivals(absl::string_view text, absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("--arrivals=", text, ": must be ", legal));
}

}  // namespace

absl::StatusOr<ArrivalProcess> ParseArrivalProcess(absl::string_view text) {
  absl::string_view rest = text;
  if (text == "constant") return ArrivalProcess{ArrivalKind::kConstant, 1, ""};
  if (text == "poisson") return ArrivalProcess{ArrivalKind::kPoisson, 1, ""};
  if (absl::ConsumePrefix(&rest, "trace:") && !rest.empty()) {
    return ArrivalProcess{ArrivalKind::kTrace, 1, std::string(rest)};
  }
  if (!absl::ConsumePrefix(&rest, "gamma:")) {
    return BadArrivals(text, "constant, poisson, gamma:CV or trace:FILE");
  }
  double variation = 0;
  if (absl::SimpleAtod(rest, &variation) && variation >= kMinVariation &&
      variation <= kMaxVariation) {
    return ArrivalProcess{ArrivalKind::kGamma, variation, ""};
  }
  return BadArrivals(
      text, absl::StrCat("gamma:CV with a coefficient of variation of ",
                         kMinVariation, " to ", kMaxVariation));
}

}  // namespace qgemm
