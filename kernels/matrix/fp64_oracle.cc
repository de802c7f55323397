// SPDX-License-Identifier: Apache-2.0
//
// The product in fp64, and the derivation of the allowed error.

#include "kernels/matrix/fp64_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/checked_math.h"

namespace qgemm {
namespace {

constexpr int64_t kQ81Block = 32;

struct Dot {
  double value = 0;
  double magnitude = 0;
};

// Four interleaved sums, so that the additions of one do not wait for another.
Dot DotProduct(const double* a, const double* w, int64_t k) {
  double value[4] = {};
  double magnitude[4] = {};
  for (int64_t i = 0; i < k; ++i) {
    const double product = a[i] * w[i];
    value[i % 4] += product;
    magnitude[i % 4] += std::abs(product);
  }
  return {(value[0] + value[1]) + (value[2] + value[3]),
          (magnitude[0] + magnitude[1]) + (magnitude[2] + magnitude[3])};
}

// Row `row` in the caller's order of input features, as Weight() gives it, with
// a group's scale and zero read once.
void DecodeRow(const CanonicalWeights& weights, int64_t row,
               std::vector<double>* out) {
  const WeightsHeader& header = weights.header();
  if (header.kind == WeightsHeader::Kind::kDense) {
    for (int64_t column = 0; column < header.k; ++column) {
      (*out)[column] = weights.Weight(row, column);
    }
    return;
  }
  const uint8_t* codes = weights.codes().data() + row * header.k;
  std::vector<double> decoded(header.codebook.size());
  for (int64_t begin = 0; begin < header.k; begin += header.group_size) {
    const int64_t group =
        row * header.groups_per_row() + begin / header.group_size;
    const double scale =
        LoadScale(header.scale_type,
                  weights.scales().data() + group * SizeOf(header.scale_type));
    const double zero = header.has_zeros ? weights.zeros()[group] : 0.0;
    for (size_t code = 0; code < decoded.size(); ++code) {
      decoded[code] =
          (header.codebook[code] - zero) * scale * weights.tensor_scale();
    }
    const int64_t end = std::min(header.k, begin + header.group_size);
    for (int64_t column = begin; column < end; ++column) {
      (*out)[weights.InputFeature(column)] = decoded[codes[column]];
    }
  }
}

// x -> d * round(x / d) with d = amax / 127, both quotients in fp32, halves
// away from zero.
void QuantizeQ81(const float* x, int64_t count, double* out) {
  float amax = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::abs(x[i]));
  }
  if (!finite) {
    std::fill_n(out, count, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const float d = amax / 127.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float q = d == 0 ? 0 : std::round(x[i] / d);
    out[i] = static_cast<double>(d) * q;
  }
}

// True if the answer is right for an oracle of NaN or infinity.
bool SameClass(double expected, double actual, ComputeMode mode) {
  if (mode == ComputeMode::kA8) return !std::isfinite(actual);
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected;
}

double RatioOf(double expected, double actual, double tolerance,
               const ElementRange& range) {
  if (actual >= range.low && actual <= range.high) {
    // Both may be the same infinity, where the range reaches it.
    if (!std::isfinite(actual) || tolerance == 0) return 0;
    return std::min(1.0, std::abs(actual - expected) / tolerance);
  }
  if (!std::isfinite(actual) || tolerance == 0) {
    return std::numeric_limits<double>::infinity();
  }
  // A range that ends on a representable value may be left by less than the
  // tolerance; outside is outside.
  return std::max(std::nextafter(1.0, 2.0),
                  std::abs(actual - expected) / tolerance);
}

// JudgeElement for any `expected`.
void Judge(double bound, const MatmulSignature& signature,
           OracleElement* element) {
  if (std::isfinite(element->expected)) {
    return JudgeElement(bound, signature.c_type, element);
  }
  const bool same =
      SameClass(element->expected, element->actual, signature.mode);
  element->ratio = same ? 0 : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<double> EffectiveActivations(const MatmulSignature& signature,
                                         absl::Span<const uint8_t> a, int64_t m,
                                         int64_t k) {
  const int64_t size = SizeOf(signature.a_type);
  CHECK_EQ(static_cast<int64_t>(a.size()), m * k * size);
  const bool rounds = signature.mode == ComputeMode::kA16 &&
                      signature.a_type == FloatType::kFloat32;
  std::vector<double> effective(m * k);
  std::vector<float> row(k);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const float x =
          LoadFloat(signature.a_type, a.data() + (i * k + j) * size);
      row[j] = rounds ? RoundTo(signature.rounding, x) : x;
    }
    double* out = effective.data() + i * k;
    if (signature.mode != ComputeMode::kA8) {
      std::copy(row.begin(), row.end(), out);
      continue;
    }
    for (int64_t j = 0; j < k; j += kQ81Block) {
      QuantizeQ81(row.data() + j, std::min(kQ81Block, k - j), out + j);
    }
  }
  return effective;
}

OracleProduct Fp64Matmul(const CanonicalWeights& weights,
                         const MatmulSignature& signature,
                         absl::Span<const uint8_t> a, int64_t m,
                         const OracleColumns& columns) {
  const WeightsHeader& header = weights.header();
  CHECK_GE(columns.first, 0);
  CHECK_GE(columns.stride, 1);
  const std::vector<double> activations =
      EffectiveActivations(signature, a, m, header.k);
  OracleProduct product;
  product.rows = m;
  for (int64_t n = columns.first; n < header.n; n += columns.stride) {
    product.columns.push_back(n);
  }
  const int64_t width = static_cast<int64_t>(product.columns.size());
  product.values.resize(m * width);
  product.magnitudes.resize(m * width);
  std::vector<double> row(header.k);
  for (int64_t j = 0; j < width; ++j) {
    DecodeRow(weights, product.columns[j], &row);
    const double bias =
        header.bias.empty() ? 0.0 : header.bias[product.columns[j]];
    for (int64_t i = 0; i < m; ++i) {
      const Dot dot =
          DotProduct(activations.data() + i * header.k, row.data(), header.k);
      product.values[i * width + j] = dot.value + bias;
      product.magnitudes[i * width + j] = dot.magnitude + std::abs(bias);
    }
  }
  return product;
}

// The error of an element is at most, relative to S = sum |a * w| + |bias|,
// to first order in each unit:
//
//   operands * u  +  (chain + chains + 8) * 2^-23
//
// operands: how many times a weight or an activation is rounded to the unit
//   u of the multiplication on its way in. A quantized weight in A16: its
//   codebook value and the product with its scale, 2. A dense weight that
//   multiplies its own type: exact, 0; one of the other type: one operand is
//   converted, and that may be to bf16. A32: the split of an activation and
//   the scale, 2. A8: the operands are integers, 0.
// u: half the spacing above 1 of fp16 (2^-11) and bf16 (2^-8); 2^-22 in A32,
//   where two fp16 parts carry 22 bits.
// chain: additions into one fp32 sum before it is added to the next level:
//   at most 1024 of K (A32: 256; A8: one a block of 32; 4096 on AMX, whose
//   operands then lose far less than two u). chains: how many
//   such sums are added up. Each addition errs by one unit of the sum's last
//   place, 2^-23, since tensor cores truncate.
// 8: fp32 roundings of codebook normalisation, scales, their product, the
//   multiplication with it and the bias, two of each where they are split.
double RelativeErrorBound(const WeightsHeader& header,
                          const MatmulSignature& signature) {
  constexpr double kFloat32Unit = 0x1p-23;
  FloatType type = signature.a_type;
  if (type == FloatType::kFloat32) type = signature.rounding;
  double unit = type == FloatType::kFloat16 ? 0x1p-11 : 0x1p-8;
  double operands = 2;
  if (header.kind == WeightsHeader::Kind::kDense) {
    operands = type == header.dense_type ? 0 : 1;
    unit = 0x1p-8;
  }
  int64_t terms = header.k;
  int64_t longest_chain = 1024;
  if (signature.mode == ComputeMode::kA32) {
    unit = 0x1p-22;
    operands = 2;
    longest_chain = 256;
  } else if (signature.mode == ComputeMode::kA8) {
    operands = 0;
    terms = CeilDiv(header.k, kQ81Block);
  }
  const int64_t chain = std::min(terms, longest_chain);
  const int64_t chains = CeilDiv(terms, longest_chain);
  return operands * unit + (chain + chains + 8) * kFloat32Unit;
}

ElementRange ToleranceRange(double value, double bound, FloatType c_type) {
  // Rounding is monotonic, so that the rounded ends bound every rounded value
  // between them; it also says from where on infinity is right.
  return {RoundTo(c_type, static_cast<float>(value - bound)),
          RoundTo(c_type, static_cast<float>(value + bound))};
}

OracleReport CompareWithOracle(const OracleProduct& oracle,
                               const WeightsHeader& header,
                               const MatmulSignature& signature,
                               absl::Span<const uint8_t> c) {
  const int64_t size = SizeOf(signature.c_type);
  CHECK_EQ(static_cast<int64_t>(c.size()), oracle.rows * header.n * size);
  const double relative = RelativeErrorBound(header, signature);
  // Hardware that takes subnormal fp32 for zero loses up to this.
  const double absolute = header.k * 0x1p-126;
  const int64_t width = static_cast<int64_t>(oracle.columns.size());
  OracleReport report;
  double error_squares = 0;
  double squares = 0;
  for (int64_t i = 0; i < oracle.rows * width; ++i) {
    OracleElement element;
    element.row = i / width;
    element.column = oracle.columns[i % width];
    element.expected = oracle.values[i];
    element.actual =
        LoadFloat(signature.c_type,
                  c.data() + (element.row * header.n + element.column) * size);
    Judge(relative * oracle.magnitudes[i] + absolute, signature, &element);
    report.Add(element);
    if (std::isfinite(element.expected) && std::isfinite(element.actual)) {
      const double error = element.actual - element.expected;
      error_squares += error * error;
      squares += element.expected * element.expected;
    }
  }
  if (squares > 0) report.relative_norm = std::sqrt(error_squares / squares);
  return report;
}

void JudgeElement(double bound, FloatType type, OracleElement* element) {
  const ElementRange range = ToleranceRange(element->expected, bound, type);
  element->tolerance =
      std::max(range.high - element->expected, element->expected - range.low);
  element->ratio =
      RatioOf(element->expected, element->actual, element->tolerance, range);
}

void OracleReport::Add(const OracleElement& element) {
  if (compared++ > 0 && element.ratio <= worst_ratio) return;
  worst_ratio = element.ratio;
  row = element.row;
  column = element.column;
  expected = element.expected;
  actual = element.actual;
  tolerance = element.tolerance;
}

absl::Status OracleReport::ToStatus() const {
  if (passed()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "C[", row, ", ", column, "] = ", actual, ", expected ", expected,
      " within ", tolerance, " (", worst_ratio, " times the tolerance)"));
}

}  // namespace qgemm
