// SPDX-License-Identifier: Apache-2.0
//
// Parsing of traces, line by line.

#include "loadtest/schedule/arrival_trace.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr double kMaxOffsetSeconds = 365.0 * 24 * 3600;  // a year

absl::Status BadLine(int64_t line, absl::string_view text,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("trace: line ", line, " \"", text, "\": must be ", legal));
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
  if (trace.offsets.empty()) {
    return absl::InvalidArgumentError(
        "trace: holds no offset: must have one or more");
  }
  return trace;
}

absl::StatusOr<double> TimeScaleFor(const ArrivalTrace& trace, double rate) {
  if (trace.mean_rate() > 0) return trace.mean_rate() / rate;
  return absl::InvalidArgumentError(absl::StrCat(
      "trace: all ", trace.offsets.size(),
      " offsets are 0: it must have a later one to be given a rate"));
}

}  // namespace qgemm
