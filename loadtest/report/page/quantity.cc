// SPDX-License-Identifier: Apache-2.0
//
// Rounding and units.

#include "loadtest/report/page/quantity.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace qgemm {
namespace {

constexpr absl::string_view kDash = "–";
constexpr absl::string_view kMinus = "−";

struct Unit {
  double size;
  absl::string_view name;
};
constexpr std::array<Unit, 4> kTimeUnits = {
    {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}}};
constexpr std::array<Unit, 5> kByteUnits = {{{1, "B"},
                                             {0x1p10, "KiB"},
                                             {0x1p20, "MiB"},
                                             {0x1p30, "GiB"},
                                             {0x1p40, "TiB"}}};

// Beyond it digits mean nothing and would only break a layout.
constexpr double kLargestGrouped = 1e15;

// Puts commas into the whole part of "1234567.8".
std::string Group(absl::string_view digits) {
  const size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return absl::StrCat(out, digits.substr(whole));
}

std::string Fixed(double value, int decimals) {
  const double size = std::fabs(value);
  if (size >= kLargestGrouped) return absl::StrFormat("%.2e", value);
  const std::string digits = Group(absl::StrFormat("%.*f", decimals, size));
  const bool is_zero = digits.find_first_of("123456789") == std::string::npos;
  return absl::StrCat(value < 0 && !is_zero ? kMinus : "", digits);
}

// Decimals that leave three significant digits, at most two.
int DecimalsOf(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) return 0;
  return size >= 9.995 ? 1 : 2;
}

// The largest unit that leaves at least 1 after rounding to three digits.
template <size_t kUnits>
const Unit& UnitOf(double value, const std::array<Unit, kUnits>& units) {
  size_t chosen = 0;
  while (chosen + 1 < kUnits &&
         std::fabs(value) >= units[chosen + 1].size * 0.9995) {
    ++chosen;
  }
  return units[chosen];
}

template <size_t kUnits>
std::string InUnits(double value, const std::array<Unit, kUnits>& units) {
  if (!std::isfinite(value)) return std::string(kDash);
  const Unit& unit = UnitOf(value, units);
  const double scaled = value / unit.size;
  // Nanoseconds and bytes are counted whole.
  const int decimals = unit.size == 1 ? 0 : DecimalsOf(scaled);
  return absl::StrCat(Fixed(scaled, decimals), " ", unit.name);
}

// As few digits as a round value needs.
std::string Shortest(double value) {
  const std::string digits = absl::StrFormat("%.6g", std::fabs(value));
  const bool is_plain = digits.find('e') == std::string::npos;
  return absl::StrCat(value < 0 ? kMinus : "",
                      is_plain ? Group(digits) : digits);
}

std::string CountTick(double value) {
  const double size = std::fabs(value);
  if (size >= 1e12) return Shortest(value);
  if (size >= 1e9) return Shortest(value / 1e9) + "G";
  if (size >= 1e6) return Shortest(value / 1e6) + "M";
  if (size >= 1e5) return Shortest(value / 1e3) + "k";
  return Shortest(value);
}

}  // namespace

std::string DurationText(double ns) { return InUnits(ns, kTimeUnits); }

std::string BytesText(double bytes) { return InUnits(bytes, kByteUnits); }

std::string CountText(double value) {
  if (!std::isfinite(value)) return std::string(kDash);
  const bool is_whole = value == std::round(value);
  return Fixed(value, is_whole ? 0 : DecimalsOf(value));
}

std::string PercentText(double share) {
  if (!std::isfinite(share)) return std::string(kDash);
  return absl::StrCat(Fixed(share * 100, 1), " %");
}

std::string MicrosecondsText(double ns) {
  if (!std::isfinite(ns)) return std::string(kDash);
  return Fixed(ns / 1e3, 1);
}

std::string TickText(double value, Quantity quantity, double largest) {
  if (!std::isfinite(value)) return std::string(kDash);
  if (value == 0 && quantity == Quantity::kNanoseconds) return "0";
  const Unit& unit = UnitOf(largest, kTimeUnits);
  switch (quantity) {
    case Quantity::kCount:
      return CountTick(value);
    case Quantity::kPercent:
      return Shortest(value) + " %";
    case Quantity::kNanoseconds:
      return absl::StrCat(Shortest(value / unit.size), " ", unit.name);
    case Quantity::kSeconds:
      return Shortest(value) + " s";
  }
  return "";
}

}  // namespace qgemm
