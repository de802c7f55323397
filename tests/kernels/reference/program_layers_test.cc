// SPDX-License-Identifier: Apache-2.0
//
// The worked layers: against whole layers in plain fp64, a row alone against
// the same row in a batch, and mutated programs by the thousand.

#include "tests/support/program_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "kernels/reference/program_interpreter.h"
#include "tests/support/random_matrix.h"

namespace qgemm::reference {
namespace {

constexpr LayerShape kShape = {24, 16, 8, 4, 40};

std::vector<uint8_t> RandomInputs(const Program& program, int64_t m,
                                  RandomGenerator* random) {
  std::vector<uint8_t> inputs;
  for (const ProgramInput& input : program.inputs) {
    const std::vector<uint8_t> rows =
        RandomMatrix(FloatTypeOf(input.type), m, input.width, random);
    inputs.insert(inputs.end(), rows.begin(), rows.end());
  }
  return inputs;
}

// A layer in fp64, one row, rounded where the worked layers round: results to
// bf16, the residual to fp32, a GEMM's operand to bf16.
class PlainLayer {
 public:
  using Values = std::vector<double>;

  explicit PlainLayer(const LoadedProgram& loaded) : loaded_(loaded) {}

  static Values Rounded(FloatType type, Values values) {
    for (double& value : values) {
      value = RoundTo(type, static_cast<float>(value));
    }
    return values;
  }
  static Values Short(Values values) {
    return Rounded(FloatType::kBFloat16, std::move(values));
  }
  static Values Residual(const Values& x, const Values& y) {
    return Rounded(FloatType::kFloat32, Sum(x, y));
  }

  Values Product(const std::string& name, Values x) const {
    const CanonicalWeights& weights = loaded_.weights.at(name);
    x = Short(std::move(x));
    Values result(weights.header().n);
    for (size_t row = 0; row < result.size(); ++row) {
      for (size_t column = 0; column < x.size(); ++column) {
        result[row] +=
            weights.Weight(row, column) * x[weights.InputFeature(column)];
      }
      if (!weights.header().bias.empty()) {
        result[row] += weights.header().bias[row];
      }
    }
    return Short(std::move(result));
  }

  // Slopes, plus `offset`, in bf16.
  static Values Weight(int64_t width, float offset = 0) {
    Values values;
    for (const float slope : Slopes(width)) values.push_back(slope + offset);
    return Short(std::move(values));
  }

  static Values RmsNorm(const Values& x, const Values& weight) {
    const size_t run = weight.size();
    Values result(x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      double squares = 0;
      for (size_t i = j / run * run; i < j / run * run + run; ++i) {
        squares += x[i] * x[i];
      }
      result[j] = x[j] / std::sqrt(squares / run + 1e-5f) * weight[j % run];
    }
    return Short(std::move(result));
  }

  static Values LayerNorm(const Values& x, const Values& weight) {
    double mean = 0;
    double variance = 0;
    for (const double element : x) mean += element / x.size();
    for (const double element : x) {
      variance += (element - mean) * (element - mean) / x.size();
    }
    Values result(x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      // BERT's bias is 0.5 to 1.5 as well.
      result[j] =
          (x[j] - mean) / std::sqrt(variance + 1e-5f) * weight[j] + weight[j];
    }
    return Rounded(FloatType::kFloat32, std::move(result));
  }

  Values GatedFfn(const Values& h,
                  const std::function<double(double)>& activation) const {
    Values gate = Product("gate", h);
    const Values up = Product("up", h);
    for (double& element : gate) element = activation(element);
    gate = Short(std::move(gate));
    for (size_t j = 0; j < gate.size(); ++j) gate[j] *= up[j];
    return Product("down", Short(std::move(gate)));
  }

  static Values Sum(const Values& x, const Values& y) {
    Values sum(x);
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += y[j];
    return sum;
  }

 private:
  const LoadedProgram& loaded_;
};

using Values = PlainLayer::Values;

double PlainSilu(double x) { return x / (1 + std::exp(-x)); }
double PlainGeluErf(double x) {
  return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
}
double PlainGeluTanh(double x) {
  const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  return x * (1 + std::tanh(u)) / 2;
}

// x', q, k, v of one row, one behind the other.
using PlainProgram = Values (*)(const PlainLayer& plain, const Values& a,
                                const Values& x);

Values Joined(const std::vector<Values>& parts) {
  Values joined;
  for (const Values& part : parts) {
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

Values PlainLlama(const PlainLayer& plain, const Values& a, const Values& x) {
  const Values norm = PlainLayer::Weight(kShape.hidden);
  const Values r = PlainLayer::Residual(x, plain.Product("o", a));
  const Values f = plain.GatedFfn(PlainLayer::RmsNorm(r, norm), PlainSilu);
  const Values next = PlainLayer::Residual(r, f);
  const Values h = PlainLayer::RmsNorm(next, norm);
  return Joined({next, plain.Product("q", h), plain.Product("k", h),
                 plain.Product("v", h)});
}

Values PlainQwen3(const PlainLayer& plain, const Values& a, const Values& x) {
  const Values norm = PlainLayer::Weight(kShape.hidden);
  const Values head = PlainLayer::Weight(kShape.head);
  const Values r = PlainLayer::Residual(x, plain.Product("o", a));
  const Values f = plain.GatedFfn(PlainLayer::RmsNorm(r, norm), PlainSilu);
  const Values next = PlainLayer::Residual(r, f);
  const Values h = PlainLayer::RmsNorm(next, norm);
  return Joined({next, PlainLayer::RmsNorm(plain.Product("q", h), head),
                 PlainLayer::RmsNorm(plain.Product("k", h), head),
                 plain.Product("v", h)});
}

Values PlainGemma(const PlainLayer& plain, const Values& a, const Values& x) {
  const Values norm = PlainLayer::Weight(kShape.hidden, 1);
  const Values o = PlainLayer::RmsNorm(plain.Product("o", a), norm);
  const Values r = PlainLayer::Residual(x, o);
  const Values f = plain.GatedFfn(PlainLayer::RmsNorm(r, norm), PlainGeluTanh);
  const Values next = PlainLayer::Residual(r, PlainLayer::RmsNorm(f, norm));
  const Values h = PlainLayer::RmsNorm(next, norm);
  return Joined({next, plain.Product("q", h), plain.Product("k", h),
                 plain.Product("v", h)});
}

Values PlainBert(const PlainLayer& plain, const Values& a, const Values& x) {
  const Values norm = PlainLayer::Weight(kShape.hidden);
  const Values r = PlainLayer::LayerNorm(
      PlainLayer::Residual(x, plain.Product("o", a)), norm);
  Values up = plain.Product("up", r);
  for (double& element : up) element = PlainGeluErf(element);
  const Values f = plain.Product("down", PlainLayer::Short(up));
  const Values next = PlainLayer::LayerNorm(PlainLayer::Residual(r, f), norm);
  return Joined({next, plain.Product("q", next), plain.Product("k", next),
                 plain.Product("v", next)});
}

struct LayerCase {
  WorkedProgram worked;
  PlainProgram plain;
};

// ||actual - expected|| / ||expected||
double RelativeNorm(const Values& actual, const Values& expected) {
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    errors += std::pow(actual[i] - expected[i], 2);
    squares += std::pow(expected[i], 2);
  }
  return std::sqrt(errors / squares);
}

Values LoadAll(NumberType type, const std::vector<uint8_t>& bytes) {
  Values values;
  for (size_t i = 0; i < bytes.size(); i += SizeOf(type)) {
    values.push_back(LoadFloat(FloatTypeOf(type), &bytes[i]));
  }
  return values;
}

TEST(ProgramLayersTest, AreTheLayersInPlainArithmetic) {
  RandomGenerator random(FreshSeed());
  const LayerCase cases[] = {{LlamaLayer(kShape, {}), PlainLlama},
                             {Qwen3Layer(kShape, {}), PlainQwen3},
                             {GemmaLayer(kShape, {}), PlainGemma},
                             {BertLayer(kShape, {}), PlainBert}};
  for (const LayerCase& layer : cases) {
    const LoadedProgram loaded = RandomWeightsOf(
        layer.worked, WeightsRecipeNamed("dense_bf16_bias"), &random);
    const auto program = CheckProgram(layer.worked.program, loaded.shapes);
    ASSERT_TRUE(program.ok()) << program.status();
    const ProgramRun run =
        InterpretProgram(*program, loaded.In(*program),
                         RandomInputs(layer.worked.program, 1, &random), 1);
    std::vector<Values> outputs;
    for (const ValueNumber number : program->program().outputs) {
      outputs.push_back(
          LoadAll(program->values()[number].type, run.values[number]));
    }
    const Values expected = layer.plain(
        PlainLayer(loaded), LoadAll(NumberType::kBFloat16, run.values[0]),
        LoadAll(NumberType::kFloat32, run.values[1]));
    // Both round at the same places. The order of fp64 sums decides a rounding
    // about once in 2^28 elements (2^-53 of a step of 2^-24), and then moves
    // one fp32 element by 2^-24 of it.
    EXPECT_LT(RelativeNorm(Joined(outputs), expected), 0x1p-20)
        << layer.worked.name;
  }
}

TEST(ProgramLayersTest, OutputsStandOneBehindTheOther) {
  RandomGenerator random(FreshSeed());
  const WorkedProgram worked = EveryOp();
  const LoadedProgram loaded =
      RandomWeightsOf(worked, WeightsRecipeNamed("dense_fp16"), &random);
  const auto program = CheckProgram(worked.program, loaded.shapes);
  ASSERT_TRUE(program.ok()) << program.status();
  const ProgramRun run =
      InterpretProgram(*program, loaded.In(*program),
                       RandomInputs(worked.program, 2, &random), 2);
  std::vector<uint8_t> expected;
  for (const ValueNumber number : {13, 14, 15}) {
    const std::vector<uint8_t>& value = run.values[number];
    EXPECT_EQ(static_cast<int64_t>(value.size()),
              2 * program->values()[number].row_bytes());
    expected.insert(expected.end(), value.begin(), value.end());
  }
  EXPECT_EQ(OutputsOf(*program, run), expected);
}

// Row `row` of each input, one behind the other.
std::vector<uint8_t> InputsOfRow(const CheckedProgram& program,
                                 const std::vector<uint8_t>& inputs, int64_t m,
                                 int64_t row) {
  std::vector<uint8_t> alone;
  int64_t offset = 0;
  for (size_t i = 0; i < program.program().inputs.size(); ++i) {
    const int64_t bytes = program.values()[i].row_bytes();
    const uint8_t* begin = inputs.data() + offset + row * bytes;
    alone.insert(alone.end(), begin, begin + bytes);
    offset += m * bytes;
  }
  return alone;
}

TEST(ProgramLayersTest, ARowAloneHasTheBitsThatItHasInABatch) {
  RandomGenerator random(FreshSeed());
  constexpr int64_t kRows = 5;
  for (const WorkedProgram& worked : WorkedPrograms(kShape, {})) {
    const LoadedProgram loaded =
        RandomWeightsOf(worked, WeightsRecipeNamed("ternary_bias"), &random);
    const auto program = CheckProgram(worked.program, loaded.shapes);
    ASSERT_TRUE(program.ok()) << program.status();
    const std::vector<const CanonicalWeights*> weights = loaded.In(*program);
    const std::vector<uint8_t> inputs =
        RandomInputs(worked.program, kRows, &random);
    const ProgramRun batch = InterpretProgram(*program, weights, inputs, kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      const ProgramRun alone = InterpretProgram(
          *program, weights, InputsOfRow(*program, inputs, kRows, row), 1);
      for (const ValueNumber number : worked.program.outputs) {
        const auto bytes = batch.values[number].begin() +
                           row * program->values()[number].row_bytes();
        EXPECT_TRUE(std::equal(alone.values[number].begin(),
                               alone.values[number].end(), bytes))
            << worked.name << ", row " << row << ", value " << number;
      }
    }
  }
}

// Edits of a program: single fields, most to values that are legal somewhere or
// at the end of a type; and whole ops.
class Mutator {
 public:
  explicit Mutator(RandomGenerator* random) : random_(random) {}

  void Edit(Program* program) {
    switch (RandomInt(0, 9, random_)) {
      case 0:
        return EditSource(program);
      case 1:
        return EditOutputs(&program->outputs);
      case 2:
        return EditOps(&program->ops);
      case 3:
        if (RandomInt(0, 9, random_) == 0) program->revision = Number();
        return;
      default:
        return EditOp(&Any(&program->ops));
    }
  }

 private:
  template <typename T>
  T& Any(std::vector<T>* elements) {
    if (elements->empty()) elements->emplace_back();
    return (*elements)[RandomInt(0, elements->size() - 1, random_)];
  }

  // Mostly small.
  int64_t Number() {
    constexpr int64_t kEnds[] = {-1,
                                 0,
                                 int64_t{1} << 31,
                                 (int64_t{1} << 32) - 1,
                                 int64_t{1} << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
    if (RandomInt(0, 3, random_) == 0) return RandomElement(kEnds, random_);
    return RandomInt(-1, 41, random_);
  }

  float Real() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kReals[] = {-kInfinity, -1, -0.0f, 0,        1e-6f,
                                1,          3,  1e30f, kInfinity};
    if (RandomInt(0, 9, random_) == 0) return std::nanf("");
    return RandomElement(kReals, random_);
  }

  template <typename Enum>
  Enum AnyOf() {
    return static_cast<Enum>(RandomInt(0, 3, random_));
  }

  void EditSource(Program* program) {
    ProgramInput& input = Any(&program->inputs);
    switch (RandomInt(0, 5, random_)) {
      case 0:
        input.type = AnyOf<NumberType>();
        return;
      case 1:
        input.width = Number();
        return;
      case 2:
        Any(&program->constants).type = AnyOf<NumberType>();
        return;
      case 3:
        Any(&program->constants).bytes.resize(RandomInt(0, 200, random_));
        return;
      case 4:
        program->inputs.push_back(input);
        return;
      default:
        if (!program->constants.empty()) program->constants.pop_back();
        return;
    }
  }

  void EditOutputs(std::vector<ValueNumber>* outputs) {
    ValueNumber& output = Any(outputs);
    switch (RandomInt(0, 2, random_)) {
      case 0:
        output = Number();
        return;
      case 1:
        std::swap(output, outputs->front());
        return;
      default:
        outputs->push_back(Number());
        return;
    }
  }

  void EditOps(std::vector<ProgramOp>* ops) {
    ProgramOp& op = Any(ops);
    switch (RandomInt(0, 3, random_)) {
      case 0:
        std::swap(op, Any(ops));
        return;
      case 1:
        ops->push_back(op);
        return;
      case 2:
        ops->erase(ops->begin() + (&op - ops->data()));
        return;
      default:
        op.kind = static_cast<OpKind>(RandomInt(0, 11, random_));
        return;
    }
  }

  void EditOp(ProgramOp* op) {
    switch (RandomInt(0, 15, random_)) {
      case 0:
        op->type = AnyOf<NumberType>();
        return;
      case 1:
        op->x = Number();
        return;
      case 2:
        op->y = Number();
        return;
      case 3:
        op->norm_weight = Number();
        return;
      case 4:
        op->norm_bias = Number();
        return;
      case 5: {
        const std::string kNames[] = {"", "up", "q", "none", "a b", "?"};
        op->weights = RandomElement(kNames, random_);
        return;
      }
      case 6:
        op->mode = AnyOf<ComputeMode>();
        return;
      case 7:
        op->rounding = AnyOf<FloatType>();
        return;
      case 8:
        op->activation = static_cast<Activation>(RandomInt(0, 6, random_));
        return;
      case 9:
        op->low = Real();
        return;
      case 10:
        op->high = Real();
        return;
      case 11:
        op->eps = Real();
        return;
      case 12:
        op->group = Number();
        return;
      case 13:
        op->begin = Number();
        return;
      case 14:
        op->width = Number();
        return;
      default:
        op->top_k = Number();
        return;
    }
  }

  RandomGenerator* const random_;
};

TEST(MutatedProgramsTest, AreRefusedOrRun) {
  constexpr int kMutants = 20000;
  constexpr int64_t kRows = 2;
  RandomGenerator random(FreshSeed());
  Mutator mutator(&random);
  const std::vector<WorkedProgram> seeds = WorkedPrograms(kShape, {});
  std::vector<LoadedProgram> loaded;
  for (const WorkedProgram& worked : seeds) {
    loaded.push_back(
        RandomWeightsOf(worked, WeightsRecipeNamed("ternary"), &random));
  }
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    const int64_t seed = RandomInt(0, seeds.size() - 1, &random);
    Program mutant = seeds[seed].program;
    const int64_t edits = RandomInt(1, 3, &random);
    for (int64_t edit = 0; edit < edits; ++edit) mutator.Edit(&mutant);
    const auto program = CheckProgram(mutant, loaded[seed].shapes);
    if (!program.ok()) {
      ASSERT_FALSE(program.status().message().empty());
      continue;
    }
    ++accepted;
    EXPECT_EQ(ProgramId(*program).size(), 64);
    const ProgramRun run =
        InterpretProgram(*program, loaded[seed].In(*program),
                         RandomInputs(mutant, kRows, &random), kRows);
    EXPECT_EQ(static_cast<int64_t>(OutputsOf(*program, run).size()),
              kRows * program->output_row_bytes());
  }
  // Some edits change nothing, so that both kinds are many.
  EXPECT_GT(accepted, kMutants / 20);
  EXPECT_LT(accepted, kMutants);
}

}  // namespace
}  // namespace qgemm::reference
