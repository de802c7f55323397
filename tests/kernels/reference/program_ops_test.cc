// SPDX-License-Identifier: Apache-2.0
//
// Each op of a program against plain fp64 formulas written another way, over
// all types; and the corners that docs/programs.md decides.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/programs/checked_program.h"
#include "kernels/reference/program_interpreter.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_matrix.h"

namespace qgemm::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr NumberType kFloats[] = {NumberType::kFloat32, NumberType::kFloat16,
                                  NumberType::kBFloat16};

using Values = std::vector<double>;

std::vector<uint8_t> Bytes(NumberType type, const Values& values) {
  std::vector<uint8_t> bytes(values.size() * SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreFloat(FloatTypeOf(type), static_cast<float>(values[i]),
               &bytes[i * SizeOf(type)]);
  }
  return bytes;
}

Values Loaded(NumberType type, const std::vector<uint8_t>& bytes) {
  Values values(bytes.size() / SizeOf(type));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(FloatTypeOf(type), &bytes[i * SizeOf(type)]);
  }
  return values;
}

std::vector<int32_t> LoadedIds(const std::vector<uint8_t>& bytes) {
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

CheckedProgram Checked(Program program, const ProgramWeightsMap& weights = {}) {
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(std::move(program), weights);
  CHECK(checked.ok()) << checked.status();
  return *std::move(checked);
}

// Runs a draft whose one input is fp32 and whose one output is `result`.
ProgramRun RunDraft(ProgramDraft* draft, ValueNumber result, const Values& x,
                    int64_t m = 1) {
  const CheckedProgram program = Checked(draft->Finish({result}));
  return InterpretProgram(program, {}, Bytes(NumberType::kFloat32, x), m);
}

Values Fp32(const std::vector<uint8_t>& bytes) {
  return Loaded(NumberType::kFloat32, bytes);
}

// An op on one fp32 row, its result fp32.
Values RunOnRow(
    const Values& x,
    const std::function<ValueNumber(ProgramDraft*, ValueNumber)>& append) {
  ProgramDraft draft(NumberType::kFloat32);
  const int64_t width = static_cast<int64_t>(x.size());
  const ValueNumber input = draft.Input(NumberType::kFloat32, width);
  const ValueNumber result = append(&draft, input);
  return Fp32(RunDraft(&draft, result, x).values[result]);
}

// The formulas, plainly: on a row of x and, where an op has them, y, weight and
// bias, which are empty otherwise.
struct PlainOperands {
  Values x, y, weight, bias;
};

double PlainActivation(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x * std::exp(x) / (std::exp(x) + 1);
    case Activation::kSigmoid:
      return std::exp(x) / (std::exp(x) + 1);
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                            (x + 0.044715 * std::pow(x, 3))));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::sinh(x) / std::cosh(x);
  }
  return kNan;
}

double PlainNorm(const PlainOperands& operands, int64_t j, double mean,
                 int64_t begin, int64_t width, double eps) {
  double squares = 0;
  for (int64_t i = begin; i < begin + width; ++i) {
    squares += std::pow(operands.x[i] - mean, 2) / width;
  }
  double value = (operands.x[j] - mean) / std::sqrt(squares + eps);
  if (!operands.weight.empty()) {
    value *= operands.weight[j % operands.weight.size()];
  }
  return operands.bias.empty() ? value : value + operands.bias[j];
}

double PlainElement(const ProgramOp& op, const PlainOperands& operands,
                    int64_t j) {
  const Values& x = operands.x;
  const int64_t width = static_cast<int64_t>(x.size());
  switch (op.kind) {
    case OpKind::kAdd:
      return x[j] + (operands.y.size() == 1 ? operands.y[0] : operands.y[j]);
    case OpKind::kMul:
      return x[j] * (operands.y.size() == 1 ? operands.y[0] : operands.y[j]);
    case OpKind::kAct:
      return PlainActivation(op.activation, x[j]);
    case OpKind::kClamp:
      return std::min<double>(std::max<double>(x[j], op.low), op.high);
    case OpKind::kRmsNorm: {
      const int64_t run = op.group == 0 ? width : op.group;
      return PlainNorm(operands, j, 0, j / run * run, run, op.eps);
    }
    case OpKind::kLayerNorm: {
      double mean = 0;
      for (const double element : x) mean += element / width;
      return PlainNorm(operands, j, mean, 0, width, op.eps);
    }
    case OpKind::kSlice:
      return x[op.begin + j];
    case OpKind::kConvert:
      return x[j];
    case OpKind::kGemm:
    case OpKind::kTopK:
      break;
  }
  return kNan;
}

// Some op of a row of 12 on random rows, with y a value or a constant.
class RandomOp {
 public:
  static constexpr int64_t kWidth = 12;
  static constexpr int64_t kRows = 3;

  RandomOp(NumberType x_type, NumberType type, RandomGenerator* random)
      : x_type_(x_type), random_(random), draft_(type) {
    x_ = draft_.Input(x_type, kWidth);
    row_ = draft_.Input(NumberType::kBFloat16, kWidth);
    number_ = draft_.Input(NumberType::kFloat32, 1);
    wide_ = draft_.Constant(NumberType::kFloat16, Drawn(kWidth));
    run_ = draft_.Constant(NumberType::kFloat32, Drawn(4));
  }

  ProgramDraft& draft() { return draft_; }
  ValueNumber x() const { return x_; }
  ValueNumber row() const { return row_; }        // [m, 12]
  ValueNumber number() const { return number_; }  // [m, 1]
  ValueNumber wide() const { return wide_; }      // constant [12]
  ValueNumber run() const { return run_; }        // constant [4]

  // Runs the draft's op and compares each element.
  void Compare(ValueNumber result) {
    const ProgramOp op = draft_.last();
    // Every input and constant must be read.
    ValueNumber sum = draft_.Mul(draft_.Add(row_, wide_), number_);
    sum = draft_.Add(sum, draft_.RmsNorm(x_, run_, 4));
    const CheckedProgram program = Checked(draft_.Finish({result, sum}));
    const ProgramRun run = InterpretProgram(program, {}, Inputs(), kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto row_of = [&](ValueNumber number) {
        return number == kNoValue ? Values() : RowOf(program, run, number, row);
      };
      const PlainOperands operands = {row_of(op.x), row_of(op.y),
                                      row_of(op.norm_weight),
                                      row_of(op.norm_bias)};
      const Values actual = row_of(result);
      for (size_t j = 0; j < actual.size(); ++j) {
        const double plain = PlainElement(op, operands, j);
        // Two fp64 formulas differ by less than this: 2^-52 of terms up to 64.
        const ElementRange range =
            ToleranceRange(plain, 0x1p-44, FloatTypeOf(op.type));
        EXPECT_TRUE(actual[j] >= range.low && actual[j] <= range.high)
            << Name(op.kind) << " " << Name(op.activation) << " of "
            << Name(x_type_) << " to " << Name(op.type) << ": " << actual[j]
            << ", expected " << plain;
      }
    }
  }

 private:
  std::vector<float> Drawn(int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = 2 * RandomSigned(random_);
    return values;
  }

  std::vector<uint8_t> Inputs() {
    std::vector<uint8_t> inputs =
        RandomMatrix(FloatTypeOf(x_type_), kRows, kWidth, random_);
    for (const auto& more :
         {RandomMatrix(FloatType::kBFloat16, kRows, kWidth, random_),
          RandomMatrix(FloatType::kFloat32, kRows, 1, random_)}) {
      inputs.insert(inputs.end(), more.begin(), more.end());
    }
    return inputs;
  }

  static Values RowOf(const CheckedProgram& program, const ProgramRun& run,
                      ValueNumber number, int64_t row) {
    const ProgramValue& value = program.values()[number];
    const Values all = Loaded(value.type, run.values[number]);
    if (value.origin == ProgramValue::Origin::kConstant) return all;
    return Values(all.begin() + row * value.width,
                  all.begin() + (row + 1) * value.width);
  }

  const NumberType x_type_;
  RandomGenerator* const random_;
  ProgramDraft draft_;
  ValueNumber x_, row_, number_, wide_, run_;
};

using AppendOp = ValueNumber (*)(RandomOp*);

constexpr AppendOp kRowWiseOps[] = {
    [](RandomOp* op) { return op->draft().Add(op->x(), op->row()); },
    [](RandomOp* op) { return op->draft().Add(op->x(), op->number()); },
    [](RandomOp* op) { return op->draft().Add(op->x(), op->wide()); },
    [](RandomOp* op) { return op->draft().Mul(op->x(), op->x()); },
    [](RandomOp* op) { return op->draft().Mul(op->x(), op->number()); },
    [](RandomOp* op) { return op->draft().Mul(op->x(), op->wide()); },
    [](RandomOp* op) { return op->draft().Clamp(op->x(), -0.3f, 0.7f); },
    [](RandomOp* op) { return op->draft().RmsNorm(op->x(), kNoValue); },
    [](RandomOp* op) { return op->draft().RmsNorm(op->x(), op->wide()); },
    [](RandomOp* op) { return op->draft().RmsNorm(op->x(), op->wide(), 4); },
    [](RandomOp* op) { return op->draft().RmsNorm(op->x(), op->run(), 4); },
    [](RandomOp* op) {
      return op->draft().LayerNorm(op->x(), kNoValue, kNoValue);
    },
    [](RandomOp* op) {
      return op->draft().LayerNorm(op->x(), op->wide(), op->wide());
    },
    [](RandomOp* op) {
      return op->draft().LayerNorm(op->x(), kNoValue, op->wide());
    },
    [](RandomOp* op) { return op->draft().Slice(op->x(), 5, 7); },
};

constexpr Activation kActivations[] = {
    Activation::kSilu,     Activation::kSigmoid, Activation::kGeluErf,
    Activation::kGeluTanh, Activation::kRelu,    Activation::kTanh};

TEST(ProgramOpsTest, AreTheirFormulasRoundedOnceInEveryType) {
  RandomGenerator random(FreshSeed());
  for (const NumberType x_type : kFloats) {
    for (const NumberType type : kFloats) {
      for (const AppendOp append : kRowWiseOps) {
        RandomOp op(x_type, type, &random);
        op.Compare(append(&op));
      }
      for (const Activation activation : kActivations) {
        RandomOp op(x_type, type, &random);
        op.Compare(op.draft().Act(op.x(), activation));
      }
      RandomOp convert(x_type, NumberType::kFloat32, &random);
      convert.Compare(convert.draft().Convert(convert.x(), type));
    }
  }
}

TEST(ProgramOpsTest, GemmIsTheOraclesProductForEveryTypeAndRounding) {
  RandomGenerator random(FreshSeed());
  const CanonicalWeights weights =
      RandomWeights(WeightsRecipeNamed("ternary_bias"), 7, 40, &random);
  const ProgramWeightsMap shapes = {
      {"w", {WeightsIdOf("w"), weights.header()}}};
  for (const NumberType a_type : kFloats) {
    for (const NumberType c_type : kFloats) {
      for (const FloatType rounding :
           {FloatType::kBFloat16, FloatType::kFloat16}) {
        if (rounding == FloatType::kFloat16 && a_type != NumberType::kFloat32) {
          continue;
        }
        ProgramDraft draft(c_type);
        const ValueNumber c = draft.Gemm(draft.Input(a_type, 40), "w");
        draft.last().rounding = rounding;
        const CheckedProgram program = Checked(draft.Finish({c}), shapes);
        const std::vector<uint8_t> a =
            RandomMatrix(FloatTypeOf(a_type), 3, 40, &random);
        const OracleProduct product =
            Fp64Matmul(weights,
                       {FloatTypeOf(a_type), FloatTypeOf(c_type),
                        ComputeMode::kA16, rounding},
                       a, 3);
        EXPECT_EQ(InterpretProgram(program, {&weights}, a, 3).values[c],
                  Bytes(c_type, product.values));
      }
    }
  }
}

TEST(ProgramOpsTest, LayerNormDividesByTheBiasedDeviation) {
  const Values actual =
      RunOnRow({1, 3}, [](ProgramDraft* draft, ValueNumber x) {
        const ValueNumber result = draft->LayerNorm(x, kNoValue, kNoValue);
        draft->last().eps = 0;
        return result;
      });
  EXPECT_EQ(actual, (Values{-1, 1}));
}

TEST(ProgramOpsTest, RmsNormTakesAMeanForEachRun) {
  const Values actual =
      RunOnRow({3, 3, 8, -8}, [](ProgramDraft* draft, ValueNumber x) {
        const ValueNumber result = draft->RmsNorm(x, kNoValue, 2);
        draft->last().eps = 0;
        return result;
      });
  EXPECT_EQ(actual, (Values{1, 1, 1, -1}));
}

TEST(ProgramOpsTest, TopKBreaksTiesByTheLowerIdAndPutsNanFirst) {
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 6);
  const ValueNumber best = draft.TopK(x, 4);
  const ProgramRun run = RunDraft(&draft, best,
                                  {1, 7, 7, -kInfinity, 2, 7,  //
                                   0, kNan, -0.0, kInfinity, kNan, 5},
                                  2);
  EXPECT_EQ(LoadedIds(run.values[best + 1]),
            (std::vector<int32_t>{1, 2, 5, 4, 1, 4, 3, 5}));
  const Values values = Fp32(run.values[best]);
  EXPECT_EQ(Values(values.begin(), values.begin() + 4), (Values{7, 7, 7, 2}));
  EXPECT_TRUE(std::isnan(values[4]) && std::isnan(values[5]));
  EXPECT_EQ(values[6], kInfinity);
}

TEST(ProgramOpsTest, ClampAndReluKeepNan) {
  const Values clamped = RunOnRow({kNan, -kInfinity, kInfinity, 0.5},
                                  [](ProgramDraft* draft, ValueNumber x) {
                                    return draft->Clamp(x, -1, 1);
                                  });
  EXPECT_TRUE(std::isnan(clamped[0]));
  EXPECT_EQ(Values(clamped.begin() + 1, clamped.end()), (Values{-1, 1, 0.5}));
  const Values relu =
      RunOnRow({kNan, -kInfinity}, [](ProgramDraft* draft, ValueNumber x) {
        return draft->Act(x, Activation::kRelu);
      });
  EXPECT_TRUE(std::isnan(relu[0]));
  EXPECT_EQ(relu[1], 0);
}

// There 1 + erf and 1 + tanh are 0 in fp64, and GELU is not, even in fp32.
TEST(ProgramOpsTest, GeluKeepsItsTails) {
  const std::pair<Activation, double> tails[] = {{Activation::kGeluErf, -11},
                                                 {Activation::kGeluTanh, -8}};
  for (const auto& [gelu, x] : tails) {
    const Activation activation = gelu;
    const Values tail = RunOnRow(
        {x, -1e30, 1e30}, [activation](ProgramDraft* draft, ValueNumber row) {
          return draft->Act(row, activation);
        });
    EXPECT_LT(tail[0], 0) << Name(gelu);
    EXPECT_EQ(tail[1], 0) << Name(gelu);
    EXPECT_EQ(tail[2], static_cast<float>(1e30)) << Name(gelu);
  }
}

// W = {1, 1}, and x = {70000, 1} in fp32: beyond fp16, well inside bf16.
TEST(ProgramOpsTest, GemmTurnsAnOperandBeyondFp16IntoInfinityAndCountsIt) {
  CanonicalWeights weights;
  WeightsHeader header;
  header.kind = WeightsHeader::Kind::kDense;
  header.n = 1;
  header.k = 2;
  CHECK_OK(weights.Begin(header));
  CHECK_OK(weights.WriteDense({0, 1, Bytes(NumberType::kFloat16, {1, 1})}));
  for (const FloatType rounding : {FloatType::kFloat16, FloatType::kBFloat16}) {
    ProgramDraft draft(NumberType::kFloat32);
    const ValueNumber x = draft.Input(NumberType::kFloat32, 2);
    const ValueNumber c = draft.Gemm(x, "w");
    draft.last().rounding = rounding;
    const CheckedProgram program = Checked(
        draft.Finish({c}), {{"w", {WeightsIdOf("w"), weights.header()}}});
    const ProgramRun run = InterpretProgram(
        program, {&weights}, Bytes(NumberType::kFloat32, {70000, 1, 2, 3}), 2);
    const bool fp16 = rounding == FloatType::kFloat16;
    EXPECT_EQ(Fp32(run.values[c]),
              (fp16 ? Values{kInfinity, 5} : Values{70144 + 1, 5}));
    EXPECT_EQ(run.overflows, (std::vector<int64_t>{fp16 ? 1 : 0}));
  }
}

TEST(ProgramOpsTest, CountResultsThatOverflowTheirTypeOnce) {
  ProgramDraft draft(NumberType::kFloat16);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 4);
  const ValueNumber half = draft.Convert(x, NumberType::kFloat16);
  const ValueNumber twice = draft.Add(half, half);
  const ProgramRun run =
      RunDraft(&draft, twice, {65520, 65519, -40000, kInfinity});
  EXPECT_EQ(run.overflows, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Loaded(NumberType::kFloat16, run.values[half]),
            (Values{kInfinity, 65504, -40000, kInfinity}));
}

}  // namespace
}  // namespace qgemm::reference
