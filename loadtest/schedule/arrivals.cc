// SPDX-License-Identifier: Apache-2.0

#include "loadtest/schedule/arrivals.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

constexpr double kMaxOffsetSeconds = 365.0 * 24 * 3600;  // a year

absl::Status BadLine(int64_t line, absl::string_view text,
                     absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("trace: line ", line, " \"", text, "\": must be ", allowed));
}

absl::Status AppendOffset(absl::string_view text, int64_t line,
                          std::vector<absl::Duration>* offsets) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) ||
      !(seconds >= 0 && seconds <= kMaxOffsetSeconds)) {
    return BadLine(line, text, "seconds from 0 to a year, as in 12.5");
  }
  const absl::Duration offset = absl::Seconds(seconds);
  if (!offsets->empty() && offset < offsets->back()) {
    return BadLine(line, text,
                   absl::StrCat("at least the offset before it, ",
                                absl::ToDoubleSeconds(offsets->back())));
  }
  offsets->push_back(offset);
  return absl::OkStatus();
}

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
  const double seconds = absl::ToDoubleSeconds(length());
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
    RETURN_IF_ERROR(AppendOffset(content, line, &trace.offsets));
  }
  if (!trace.offsets.empty()) return trace;
  return absl::InvalidArgumentError(
      "trace: holds no offset: must have one or more");
}

absl::StatusOr<double> TimeScaleFor(const ArrivalTrace& trace, double rate) {
  if (trace.mean_rate() > 0) return trace.mean_rate() / rate;
  return absl::InvalidArgumentError(absl::StrCat(
      "trace: all ", trace.offsets.size(),
      " offsets are 0: it must have a later one to be given a rate"));
}

RenewalArrivals::RenewalArrivals(const ArrivalProcess& process,
                                 RateProfile profile, uint64_t seed)
    : profile_(std::move(profile)),
      gaps_(process, seed),
      fraction_(gaps_.First()) {}

absl::Duration RenewalArrivals::Next() {
  // Positive, and far below 2^63, so that the cast rounds down.
  const auto units = static_cast<double>(static_cast<int64_t>(fraction_));
  whole_units_ += units;
  fraction_ -= units;
  // Two sums that differ by less than rounding may map in the wrong order.
  last_ = std::max(last_, profile_.OffsetOf(whole_units_ + fraction_));
  fraction_ += gaps_.Next();
  return last_;
}

std::optional<absl::Duration> ArrivalSequence::Next() {
  if (auto* renewal = std::get_if<RenewalArrivals>(&arrivals_)) {
    return renewal->Next();
  }
  auto& [trace, time_scale, next] = std::get<TraceArrivals>(arrivals_);
  if (next == trace->offsets.size()) return std::nullopt;
  return trace->offsets[next++] * time_scale;
}

}  // namespace qgemm::loadtest
