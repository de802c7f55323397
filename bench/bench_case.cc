// SPDX-License-Identifier: Apache-2.0
//
// Parses the lists of options.

#include "bench/bench_case.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 20;

constexpr std::array<const char*, 8> kFormats = {
    "kbit2", "kbit3", "kbit4", "kbit5", "q4_0", "int4", "ternary", "dense"};

absl::Status Wrong(const char* flag, absl::string_view piece,
                   absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " = \"", piece, "\" is not ", expected));
}

absl::StatusOr<int64_t> ParseExtent(const char* flag, absl::string_view text) {
  int64_t value;
  if (absl::SimpleAtoi(text, &value) && value >= 1 && value <= kMaxExtent) {
    return value;
  }
  return Wrong(flag, text, absl::StrCat("an integer from 1 to ", kMaxExtent));
}

absl::StatusOr<std::vector<BenchShape>> ParseShapes(absl::string_view text) {
  std::vector<BenchShape> shapes;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> sides = absl::StrSplit(piece, 'x');
    if (sides.size() != 2) return Wrong("shapes", piece, "KxN");
    BenchShape shape;
    ASSIGN_OR_RETURN(shape.k, ParseExtent("shapes", sides[0]));
    ASSIGN_OR_RETURN(shape.n, ParseExtent("shapes", sides[1]));
    if (shape.k % 32 != 0)
      return Wrong("shapes", piece, "KxN with K a multiple of 32");
    shapes.push_back(shape);
  }
  return shapes;
}

absl::StatusOr<std::vector<int64_t>> ParseRows(absl::string_view text) {
  std::vector<int64_t> rows;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const int64_t m, ParseExtent("m", piece));
    rows.push_back(m);
  }
  return rows;
}

absl::StatusOr<std::vector<std::string>> ParseFormats(absl::string_view text) {
  std::vector<std::string> formats;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    if (std::find(kFormats.begin(), kFormats.end(), piece) == kFormats.end()) {
      return Wrong("formats", piece,
                   "one of kbit2 kbit3 kbit4 kbit5 q4_0 int4 ternary dense");
    }
    formats.push_back(std::string(piece));
  }
  return formats;
}

absl::StatusOr<std::vector<FloatType>> ParseTypes(absl::string_view text) {
  std::vector<FloatType> types;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const auto matches = [piece](FloatType type) {
      return Name(type) == piece;
    };
    const std::array<FloatType, 3> all = {
        FloatType::kFloat16, FloatType::kBFloat16, FloatType::kFloat32};
    const auto found = std::find_if(all.begin(), all.end(), matches);
    if (found == all.end())
      return Wrong("dtypes", piece, "one of fp16 bf16 fp32");
    types.push_back(*found);
  }
  return types;
}

// The dtypes and modes that a format is measured in.
std::vector<BenchCase> Variants(const std::string& format,
                                const std::vector<FloatType>& dtypes) {
  const bool integer_codes =
      format == "q4_0" || format == "int4" || format == "ternary";
  std::vector<BenchCase> variants;
  BenchCase variant;
  variant.format = format;
  for (FloatType dtype : dtypes) {
    variant.dtype = dtype;
    variant.mode = integer_codes && dtype == FloatType::kFloat32
                       ? ComputeMode::kA32
                       : ComputeMode::kA16;
    variants.push_back(variant);
    if (format != "q4_0") continue;
    variant.mode = ComputeMode::kA8;
    variants.push_back(variant);
  }
  return variants;
}

}  // namespace

absl::StatusOr<std::vector<BenchCase>> ExpandSweep(const SweepText& text) {
  ASSIGN_OR_RETURN(const std::vector<BenchShape> shapes,
                   ParseShapes(text.shapes));
  ASSIGN_OR_RETURN(const std::vector<int64_t> rows, ParseRows(text.m));
  ASSIGN_OR_RETURN(const std::vector<std::string> formats,
                   ParseFormats(text.formats));
  ASSIGN_OR_RETURN(const std::vector<FloatType> dtypes,
                   ParseTypes(text.dtypes));
  std::vector<BenchCase> cases;
  for (const BenchShape& shape : shapes) {
    for (const std::string& format : formats) {
      for (BenchCase variant : Variants(format, dtypes)) {
        variant.shape = shape;
        for (int64_t m : rows) {
          variant.m = m;
          cases.push_back(variant);
        }
      }
    }
  }
  return cases;
}

bool SameLayer(const BenchCase& a, const BenchCase& b) {
  // A dense layer is held in the type of its activations.
  return a.format == b.format && a.shape.k == b.shape.k &&
         a.shape.n == b.shape.n && (a.format != "dense" || a.dtype == b.dtype);
}

}  // namespace qgemm
