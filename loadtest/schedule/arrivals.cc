// SPDX-License-Identifier: Apache-2.0

#include "loadtest/schedule/arrivals.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"

namespace qgemm::loadtest {
namespace {

constexpr double kMaxOffsetSeconds = 365.0 * 24 * 3600;  // a year

}  // namespace

UnitGaps::UnitGaps(const ArrivalProcess& process, uint64_t seed)
    : constant_(process.kind == ArrivalKind::kConstant),
      shape_(1 / (process.variation * process.variation)),
      gaps_(shape_, 1 / shape_),
      random_(seed) {
  CHECK(process.kind != ArrivalKind::kTrace) << "a trace has no random gaps";
}

double UnitGaps::First() {
  if (constant_) return 0.5;
  // A moment falls into a gap the likelier the longer it is, at any point of
  // it alike; of gamma gaps the longer ones have one more in shape.
  std::gamma_distribution<double> longer(1 + shape_, 1 / shape_);
  return longer(random_) * std::uniform_real_distribution<double>()(random_);
}

double UnitGaps::Next() { return constant_ ? 1 : gaps_(random_); }

absl::StatusOr<ArrivalProcess> ParseArrivalProcess(absl::string_view text) {
  absl::string_view rest = text;
  if (text == "constant") return ArrivalProcess{ArrivalKind::kConstant, 1, ""};
  if (text == "poisson") return ArrivalProcess{ArrivalKind::kPoisson, 1, ""};
  if (absl::ConsumePrefix(&rest, "trace:") && !rest.empty()) {
    return ArrivalProcess{ArrivalKind::kTrace, 1, std::string(rest)};
  }
  if (!absl::ConsumePrefix(&rest, "gamma:")) {
    return absl::InvalidArgumentError(
        "must be constant, poisson, gamma:CV or trace:FILE");
  }
  double variation = 0;
  if (absl::SimpleAtod(rest, &variation) && variation >= kMinVariation &&
      variation <= kMaxVariation) {
    return ArrivalProcess{ArrivalKind::kGamma, variation, ""};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be gamma:CV with a coefficient of variation of ",
                   kMinVariation, " to ", kMaxVariation));
}

double ArrivalTrace::mean_rate() const {
  const double seconds = absl::ToDoubleSeconds(offsets.back());
  return seconds == 0 ? 0 : static_cast<double>(offsets.size()) / seconds;
}

absl::StatusOr<ArrivalTrace> ParseArrivalTrace(absl::string_view text) {
  ArrivalTrace trace;
  int64_t line = 0;
  for (absl::string_view content : absl::StrSplit(text, '\n')) {
    ++line;
    content = content.substr(0, content.find('#'));
    content = absl::StripAsciiWhitespace(content);
    if (content.empty()) continue;
    double seconds = 0;
    const absl::Duration last =
        trace.offsets.empty() ? absl::ZeroDuration() : trace.offsets.back();
    if (!absl::SimpleAtod(content, &seconds) ||
        !(seconds <= kMaxOffsetSeconds) || absl::Seconds(seconds) < last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "trace: line ", line, " \"", content,
          "\": must be seconds from 0 to "
          "a year, as in 12.5, and none below the line before it"));
    }
    trace.offsets.push_back(absl::Seconds(seconds));
  }
  if (!trace.offsets.empty()) return trace;
  return absl::InvalidArgumentError(
      "trace: holds no offset: must have one or more");
}

ArrivalSequence::ArrivalSequence(const ArrivalProcess& process,
                                 RateProfile profile, uint64_t seed)
    : profile_(std::move(profile)), gaps_(UnitGaps(process, seed)) {
  fraction_ = gaps_->First();
}

std::optional<absl::Duration> ArrivalSequence::Next() {
  if (trace_ != nullptr) {
    if (next_ == trace_->offsets.size()) return std::nullopt;
    return trace_->offsets[next_++] * time_scale_;
  }
  // Positive, and far below 2^63, so that the cast rounds down.
  const auto units = static_cast<double>(static_cast<int64_t>(fraction_));
  whole_units_ += units;
  fraction_ -= units;
  // Two sums that differ by less than rounding may map in the wrong order.
  last_ = std::max(last_, profile_->OffsetOf(whole_units_ + fraction_));
  fraction_ += gaps_->Next();
  return last_;
}

}  // namespace qgemm::loadtest
