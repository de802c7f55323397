// SPDX-License-Identifier: Apache-2.0
//
// The bounds, and the comparison row by row.

#include "kernels/reference/op_judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/programs/op_fields.h"
#include "kernels/reference/row_ops.h"

namespace qgemm::reference {
namespace {

// Half the spacing of fp32 above 1.
constexpr double kUnit = 0x1p-24;
// An error that no result is judged by, of activations and norms.
constexpr double kNegligible = 0x1p-120;

// A row before its rounding to the op's type, and the largest error that fp32
// arithmetic may have made of each element; 0: there is one right answer.
struct Expected {
  Row values;
  Row bounds;
};

class Judge {
 public:
  Judge(const CheckedProgram& program, const ProgramValues& values, int64_t op)
      : program_(program),
        values_(values),
        index_(op),
        op_(program.ops()[op]),
        result_(program.result_of(op)) {}

  OracleReport CompareGemm(const CanonicalWeights& weights, int64_t m) const {
    const MatmulSignature signature = program_.signature_of(index_);
    return CompareWithOracle(Fp64Matmul(weights, signature, values_[op_.x], m),
                             weights.header(), signature, values_[result_]);
  }

  void CompareRow(int64_t row, OracleReport* report) const {
    if (op_.kind == OpKind::kTopK) return CompareTopK(row, report);
    const Expected expected = RowOf(row);
    const FloatType type = FloatTypeOf(op_.type);
    const uint8_t* actual = RowBytes(result_, row);
    for (size_t j = 0; j < expected.values.size(); ++j) {
      OracleElement element = ElementAt(row, j, expected.values[j]);
      JudgeBytes(type, expected.bounds[j], actual, &element);
      report->Add(element);
      actual += SizeOf(type);
    }
  }

 private:
  static OracleElement ElementAt(int64_t row, int64_t column, double expected) {
    OracleElement element;
    element.row = row;
    element.column = column;
    element.expected = expected;
    return element;
  }

  const uint8_t* RowBytes(ValueNumber number, int64_t row) const {
    const ProgramValue& value = program_.values()[number];
    if (value.origin == ProgramValue::Origin::kConstant) row = 0;
    return values_[number].data() + row * value.row_bytes();
  }

  Row Load(ValueNumber number, int64_t row) const {
    if (number == kNoValue) return {};
    const ProgramValue& value = program_.values()[number];
    const FloatType type = FloatTypeOf(value.type);
    const uint8_t* bytes = RowBytes(number, row);
    Row elements(value.width);
    for (double& element : elements) {
      element = LoadFloat(type, bytes);
      bytes += SizeOf(type);
    }
    return elements;
  }

  // Fills in actual, tolerance and ratio. Without a bound the bits count.
  static void JudgeBytes(FloatType type, double bound, const uint8_t* actual,
                         OracleElement* element) {
    element->actual = LoadFloat(type, actual);
    if (bound > 0 && std::isfinite(element->expected)) {
      return JudgeElement(bound, type, element);
    }
    uint8_t right[sizeof(float)];
    StoreFloat(type, static_cast<float>(element->expected), right);
    const bool same = std::isnan(element->expected)
                          ? std::isnan(element->actual)
                          : std::memcmp(right, actual, SizeOf(type)) == 0;
    element->ratio = same ? 0 : std::numeric_limits<double>::infinity();
  }

  Expected RowOf(int64_t row) const;
  Expected RmsNormRow(const Row& x, const Row& weight) const;
  Expected LayerNormRow(const Row& x, const Row& weight, const Row& bias) const;
  void CompareTopK(int64_t row, OracleReport* report) const;

  const CheckedProgram& program_;
  const ProgramValues& values_;
  const int64_t index_;
  const ProgramOp& op_;
  const ValueNumber result_;
};

// The error of a norm's sum of `count` elements, as a fraction of the sum of
// their magnitudes: u for each addition of the longest chain, which may have
// 16 terms and a 256th of all, and for the roundings of a term and of the mean.
double NormUnits(int64_t count) {
  return (24 + static_cast<double>(count) / 256) * kUnit;
}

// y = x s w with s = 1 / sqrt(mean + eps). Half of the error of the sum reaches
// s; its square root and division, and the two products, add u or, by fast
// instructions, 2u each. That is below NormUnits of y.
Expected Judge::RmsNormRow(const Row& x, const Row& weight) const {
  const int64_t width = static_cast<int64_t>(x.size());
  const int64_t run = op_.group == 0 ? width : op_.group;
  Expected expected;
  expected.values = RmsNorm(x, weight, op_.eps, run);
  for (const double value : expected.values) {
    expected.bounds.push_back(
        std::max(NormUnits(run) * std::abs(value), kNegligible));
  }
  return expected;
}

// y = (x - mean) s w + b. The mean is wrong by NormUnits of mean |x|, which s w
// scales; all else by NormUnits of |x - mean| s w, and by roundings of b.
Expected Judge::LayerNormRow(const Row& x, const Row& weight,
                             const Row& bias) const {
  const double count = static_cast<double>(x.size());
  double mean = 0;
  double magnitude = 0;
  for (const double element : x) {
    mean += element / count;
    magnitude += std::abs(element) / count;
  }
  double variance = 0;
  for (const double element : x) {
    variance += (element - mean) * (element - mean) / count;
  }
  const double scale = 1 / std::sqrt(variance + op_.eps);
  const double units = NormUnits(static_cast<int64_t>(x.size()));
  Expected expected;
  expected.values = LayerNorm(x, weight, bias, op_.eps);
  for (size_t j = 0; j < x.size(); ++j) {
    const double w = weight.empty() ? 1 : std::abs(weight[j]);
    const double b = bias.empty() ? 0 : std::abs(bias[j]);
    expected.bounds.push_back(
        std::max(2 * units * ((std::abs(x[j]) + magnitude) * scale * w + b),
                 kNegligible));
  }
  return expected;
}

Expected Judge::RowOf(int64_t row) const {
  Row x = Load(op_.x, row);
  const Row y = Load(op_.y, row);
  switch (op_.kind) {
    case OpKind::kRmsNorm:
      return RmsNormRow(x, Load(op_.norm_weight, row));
    case OpKind::kLayerNorm:
      return LayerNormRow(x, Load(op_.norm_weight, row),
                          Load(op_.norm_bias, row));
    case OpKind::kAdd:
      for (size_t j = 0; j < x.size(); ++j) x[j] += y[j % y.size()];
      break;
    case OpKind::kMul:
      for (size_t j = 0; j < x.size(); ++j) x[j] *= y[j % y.size()];
      break;
    case OpKind::kAct:
      for (double& element : x) {
        element = Activate(op_.activation, element);
      }
      break;
    case OpKind::kClamp:
      for (double& element : x) {
        element = Clamp(element, op_.low, op_.high);
      }
      break;
    case OpKind::kSlice:
      x = Row(x.begin() + op_.begin, x.begin() + op_.begin + op_.width);
      break;
    case OpKind::kConvert:
      break;
    case OpKind::kGemm:
    case OpKind::kTopK:
      LOG(FATAL) << Name(op_.kind) << " is judged elsewhere";
  }
  Expected expected = {std::move(x), {}};
  const bool exact =
      op_.kind != OpKind::kAct || op_.activation == Activation::kRelu;
  for (const double value : expected.values) {
    expected.bounds.push_back(exact ? 0 : ActivationBound(value));
  }
  return expected;
}

void Judge::CompareTopK(int64_t row, OracleReport* report) const {
  const Row x = Load(op_.x, row);
  const std::vector<int32_t> columns = TopColumns(x, op_.top_k);
  const uint8_t* values = RowBytes(result_, row);
  const uint8_t* ids = RowBytes(result_ + 1, row);
  for (size_t i = 0; i < columns.size(); ++i) {
    OracleElement value = ElementAt(row, i, x[columns[i]]);
    JudgeBytes(FloatType::kFloat32, 0, values + i * sizeof(float), &value);
    report->Add(value);
    int32_t id = 0;
    std::memcpy(&id, ids + i * sizeof(id), sizeof(id));
    OracleElement column = ElementAt(row, i, columns[i]);
    column.actual = id;
    if (id != columns[i]) {
      column.ratio = std::numeric_limits<double>::infinity();
    }
    report->Add(column);
  }
}

}  // namespace

ProgramValues ValuesBeforeOps(const CheckedProgram& program,
                              absl::Span<const uint8_t> inputs, int64_t m) {
  CHECK_EQ(static_cast<int64_t>(inputs.size()), m * program.input_row_bytes());
  ProgramValues values(program.values().size());
  size_t number = 0;
  size_t offset = 0;
  for (; number < program.program().inputs.size(); ++number) {
    const auto bytes =
        inputs.subspan(offset, m * program.values()[number].row_bytes());
    values[number].assign(bytes.begin(), bytes.end());
    offset += bytes.size();
  }
  for (const ProgramConstant& constant : program.program().constants) {
    values[number++] = constant.bytes;
  }
  return values;
}

double ActivationBound(double expected) {
  if (expected == 0 || !std::isfinite(expected)) return kNegligible;
  const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
  return std::max(4 * ulp, kNegligible);
}

OracleReport CompareOp(const CheckedProgram& program,
                       absl::Span<const CanonicalWeights* const> weights,
                       const ProgramValues& values, int64_t m, int64_t op) {
  const Judge judge(program, values, op);
  if (program.ops()[op].kind == OpKind::kGemm) {
    return judge.CompareGemm(*weights[program.weights_of(op)], m);
  }
  OracleReport report;
  for (int64_t row = 0; row < m; ++row) judge.CompareRow(row, &report);
  return report;
}

absl::Status JudgeOp(const CheckedProgram& program,
                     absl::Span<const CanonicalWeights* const> weights,
                     const ProgramValues& values, int64_t m, int64_t op) {
  const absl::Status status =
      CompareOp(program, weights, values, m, op).ToStatus();
  if (status.ok()) return status;
  const ProgramOp& declared = program.ops()[op];
  return absl::Status(
      status.code(),
      absl::StrCat("op ", op, " (", LabelOf(declared), ", ",
                   Name(program.values()[declared.x].type), " to ",
                   Name(declared.type), "): ", status.message()));
}

}  // namespace qgemm::reference
