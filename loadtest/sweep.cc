// SPDX-License-Identifier: Apache-2.0

#include "loadtest/sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int kMaxPoints = 100;

constexpr std::pair<absl::string_view, SweptFlag> kFlags[] = {
    {"rate", SweptFlag::kRate},
    {"concurrency", SweptFlag::kConcurrency},
    {"m", SweptFlag::kM}};

absl::string_view Name(SweptFlag flag) {
  for (const auto& [name, each] : kFlags) {
    if (each == flag) return name;
  }
  return "";
}

absl::Status Bad(absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--sweep=", text, ": ", reason,
      "; legal are rate=100,200,400, concurrency=1..64/7 and m=1,16 with at "
      "most ",
      kMaxPoints, " values"));
}

double RoundedToThreeDigits(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

// As the flag would take it: a rate, or a whole number from 1.
std::string ValueOf(SweptFlag flag, double value) {
  if (flag == SweptFlag::kRate)
    return absl::StrCat(RoundedToThreeDigits(value));
  return absl::StrFormat("%.0f", std::max(1.0, std::round(value)));
}

// flag=first..last/count.
absl::StatusOr<std::vector<std::string>> ParseRange(absl::string_view text,
                                                    SweptFlag flag) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text.substr(text.find('=') + 1), absl::MaxSplits("..", 1));
  const std::pair<absl::string_view, absl::string_view> last =
      absl::StrSplit(ends.second, absl::MaxSplits('/', 1));
  double from = 0;
  double to = 0;
  int count = 0;
  if (!absl::SimpleAtod(ends.first, &from) ||
      !absl::SimpleAtod(last.first, &to) ||
      !absl::SimpleAtoi(last.second, &count) || !(from > 0) || !(to > from) ||
      !std::isfinite(to) || count < 2 || count > kMaxPoints) {
    return Bad(text, "not a range first..last/count with 0 < first < last");
  }
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) {
    const double value = from * std::pow(to / from, double(i) / (count - 1));
    const std::string rounded = ValueOf(flag, value);
    if (values.empty() || values.back() != rounded) values.push_back(rounded);
  }
  return values;
}

}  // namespace

std::string Sweep::Label(size_t point) const {
  return absl::StrCat(Name(flag), "=", values[point]);
}

absl::StatusOr<Sweep> ParseSweep(absl::string_view text) {
  Sweep sweep;
  if (text.empty()) return sweep;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  bool known = false;
  for (const auto& [name, flag] : kFlags) {
    if (name != parts.first) continue;
    sweep.flag = flag;
    known = true;
  }
  if (!known) return Bad(text, "no such flag to sweep");
  if (absl::string_view(parts.second).find("..") != absl::string_view::npos) {
    ASSIGN_OR_RETURN(sweep.values, ParseRange(text, sweep.flag));
    return sweep;
  }
  sweep.values = absl::StrSplit(parts.second, ',', absl::SkipEmpty());
  if (sweep.values.empty() || sweep.values.size() > kMaxPoints) {
    return Bad(text, absl::StrCat(sweep.values.size(), " values"));
  }
  return sweep;
}

}  // namespace qgemm
