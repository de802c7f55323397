// SPDX-License-Identifier: Apache-2.0
//
// Every kind of op in every type is what fp64 says, exactly or within its
// bound, over widths and rows around block borders, and for values that are not
// finite.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/program_fixture.h"
#include "tests/support/program_layers.h"

namespace qgemm {
namespace {

struct Shape {
  int64_t m;
  int64_t width;
};

constexpr Shape kShapes[] = {{1, 1},    {65, 1},  {3, 33},  {17, 256},
                             {1, 4097}, {3, 515}, {65, 64}, {1, 9000}};

constexpr Activation kActivations[] = {
    Activation::kSilu,     Activation::kSigmoid, Activation::kGeluErf,
    Activation::kGeluTanh, Activation::kRelu,    Activation::kTanh};

// A divisor of the width, for norms over runs.
int64_t RunOf(int64_t width) {
  for (const int64_t run : {64, 11, 5, 2}) {
    if (width % run == 0) return run;
  }
  return 1;
}

// All row-wise ops on one x, in one program whose outputs are their results.
Program AllRowWiseOps(NumberType x_type, NumberType y_type, NumberType type,
                      int64_t width) {
  ProgramDraft draft(type);
  const int64_t run = RunOf(width);
  const ValueNumber x = draft.Input(x_type, width);
  const ValueNumber y = draft.Input(y_type, width);
  const ValueNumber number = draft.Input(y_type, 1);
  const ValueNumber wide = draft.Constant(y_type, Slopes(width));
  const ValueNumber of_run = draft.Constant(x_type, Slopes(run));
  std::vector<ValueNumber> results;
  for (const ValueNumber other : {y, number, wide, x}) {
    results.push_back(draft.Add(x, other));
    results.push_back(draft.Mul(x, other));
  }
  for (const Activation activation : kActivations) {
    results.push_back(draft.Act(x, activation));
  }
  results.push_back(draft.Clamp(x, -0.3f, 0.7f));
  results.push_back(draft.RmsNorm(x, kNoValue));
  results.push_back(draft.RmsNorm(x, wide));
  results.push_back(draft.RmsNorm(x, of_run, run));
  results.push_back(draft.RmsNorm(x, wide, run));
  results.push_back(draft.LayerNorm(x, kNoValue, kNoValue));
  results.push_back(draft.LayerNorm(x, wide, kNoValue));
  results.push_back(draft.LayerNorm(x, wide, wide));
  results.push_back(draft.Slice(x, width / 3, width - width / 3));
  results.push_back(draft.Convert(x, type));
  const ValueNumber best = draft.TopK(x, std::min<int64_t>(width, 9));
  results.push_back(best);
  results.push_back(best + 1);
  return draft.Finish(results);
}

class ProgramOpsTest : public PerProgramBackendTest {
 protected:
  // Runs the program on the inputs and judges each op.
  void RunAndJudge(const CheckedProgram& program,
                   const std::vector<const CanonicalWeights*>& weights,
                   ProgramRequest request) {
    const ProgramResults results =
        RunProgram(backend(), {Compiled(program, weights), {request}});
    ExpectEachOpIsRight(program, weights, request, results[0]);
  }

  NumberType AnyType() { return RandomElement(kFloatTypes, random()); }
};

TEST_P(ProgramOpsTest, RowWiseOpsAreRightInEveryTypeAndShape) {
  size_t next_shape = 0;
  for (const NumberType x_type : kFloatTypes) {
    for (const NumberType type : kFloatTypes) {
      for (int round = 0; round < 2; ++round) {
        const Shape shape = kShapes[next_shape++ % std::size(kShapes)];
        const CheckedProgram program =
            CheckedOrDie(AllRowWiseOps(x_type, AnyType(), type, shape.width));
        RunAndJudge(program, {}, {shape.m, RandomInputs(program, shape.m), {}});
      }
    }
  }
}

// Infinities, NaN, both zeros, the ends of each type and what lies between.
std::vector<float> SpecialValues() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {
      0,     0x1p-149f, 0x1p-126f, 0x1p-120f, 0x1p-25f, 0x1p-24f,  0x1p-14f,
      0.25f, 0.5f,      1,         2,         3.3f,     9,         12.9f,
      17,    50,        87.3f,     88.3f,     88.8f,    104,       65504,
      65520, 0x1p60f,   0x1p127f,  3.39e38f,  3.4e38f,  kInfinity, 1.5f};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  return values;
}

// A row for each value, all else being finite; and one with all of them.
std::vector<uint8_t> SpecialRows(NumberType type, int64_t width,
                                 RandomGenerator* random) {
  const std::vector<float> special = SpecialValues();
  const int64_t m = static_cast<int64_t>(special.size());
  std::vector<uint8_t> rows =
      RandomMatrix(FloatTypeOf(type), m + 1, width, random);
  for (int64_t i = 0; i < m; ++i) {
    const int64_t column = RandomInt(0, width - 1, random);
    StoreFloat(FloatTypeOf(type), special[i],
               &rows[(i * width + column) * SizeOf(type)]);
    StoreFloat(FloatTypeOf(type), special[i],
               &rows[(m * width + i) * SizeOf(type)]);
  }
  return rows;
}

TEST_P(ProgramOpsTest, SpecialValuesGoThroughTheFormulas) {
  constexpr int64_t kWidth = 64;
  const int64_t m = static_cast<int64_t>(SpecialValues().size()) + 1;
  for (const NumberType x_type : kFloatTypes) {
    for (const NumberType type : kFloatTypes) {
      ProgramDraft draft(type);
      const ValueNumber x = draft.Input(x_type, kWidth);
      const ValueNumber y = draft.Input(x_type, kWidth);
      std::vector<ValueNumber> results = {draft.Add(x, y), draft.Mul(x, y),
                                          draft.Clamp(x, -1, 2),
                                          draft.Convert(x, type)};
      for (const Activation activation : kActivations) {
        results.push_back(draft.Act(x, activation));
      }
      const ValueNumber best = draft.TopK(x, 7);
      results.push_back(best);
      results.push_back(best + 1);
      const CheckedProgram program = CheckedOrDie(draft.Finish(results));
      std::vector<uint8_t> inputs = SpecialRows(x_type, kWidth, random());
      const std::vector<uint8_t> y_rows = SpecialRows(x_type, kWidth, random());
      inputs.insert(inputs.end(), y_rows.begin(), y_rows.end());
      RunAndJudge(program, {}, {m, inputs, {}});
    }
  }
}

// Elements that a norm is not defined for are left out: those beyond 2^60.
TEST_P(ProgramOpsTest, NormsSpreadWhatIsNotFinite) {
  constexpr int64_t kWidth = 24;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {kInfinity, -kInfinity, std::nanf("")};
  ProgramDraft draft(NumberType::kFloat32);
  const ValueNumber x = draft.Input(NumberType::kFloat32, kWidth);
  const std::vector<ValueNumber> results = {
      draft.RmsNorm(x, kNoValue, 8), draft.RmsNorm(x, kNoValue),
      draft.LayerNorm(x, kNoValue, kNoValue)};
  const CheckedProgram program = CheckedOrDie(draft.Finish(results));
  std::vector<uint8_t> inputs = RandomInputs(program, std::size(special));
  for (size_t i = 0; i < std::size(special); ++i) {
    StoreFloat(FloatType::kFloat32, special[i],
               &inputs[(i * kWidth + 3) * sizeof(float)]);
  }
  RunAndJudge(program, {}, {std::size(special), inputs, {}});
}

TEST_P(ProgramOpsTest, ARowOfZerosWithoutEpsHasANormOfNan) {
  ProgramDraft draft(NumberType::kBFloat16);
  const ValueNumber x = draft.Input(NumberType::kFloat32, 5);
  std::vector<ValueNumber> results = {draft.RmsNorm(x, kNoValue)};
  draft.last().eps = 0;
  results.push_back(draft.LayerNorm(x, kNoValue, kNoValue));
  draft.last().eps = 0;
  const CheckedProgram program = CheckedOrDie(draft.Finish(results));
  RunAndJudge(program, {}, {1, std::vector<uint8_t>(5 * sizeof(float)), {}});
}

// Few values, so that most elements have equals; both zeros are equal. Wide
// rows, whose last part a GPU's blocks may not fill, too.
TEST_P(ProgramOpsTest, TopKTakesTheLowerColumnOfEquals) {
  constexpr int64_t kRows = 4;
  constexpr float kValues[] = {-2, -1, -0.0f, 0, 1};
  constexpr std::pair<int64_t, int64_t> kWidthsAndKs[] = {
      {700, 1},     {700, 300},   {700, 700},    {20001, 64},
      {20001, 512}, {40000, 256}, {40000, 1024}, {131075, 1}};
  for (const NumberType type : kFloatTypes) {
    for (const auto& [width, k] : kWidthsAndKs) {
      ProgramDraft draft(type);
      const ValueNumber best = draft.TopK(draft.Input(type, width), k);
      const CheckedProgram program =
          CheckedOrDie(draft.Finish({best + 1, best}));
      std::vector<uint8_t> inputs(kRows * width * SizeOf(type));
      for (size_t at = 0; at < inputs.size(); at += SizeOf(type)) {
        StoreFloat(FloatTypeOf(type), RandomElement(kValues, random()),
                   &inputs[at]);
      }
      RunAndJudge(program, {}, {kRows, inputs, {}});
    }
  }
}

struct GemmCase {
  const char* recipe;
  ComputeMode mode;
};

// Formats and modes are the Gemm suites' to sweep; here each way that operands
// reach the product.
TEST_P(ProgramOpsTest, GemmIsRightInEveryTypeAndMode) {
  constexpr GemmCase kCases[] = {{"kbit4", ComputeMode::kA16},
                                 {"dense_bf16_bias", ComputeMode::kA16},
                                 {"q4_0", ComputeMode::kA8},
                                 {"ternary_bias", ComputeMode::kA32}};
  constexpr int64_t kRows[] = {1, 3, 17, 65};
  size_t next_rows = 0;
  for (const GemmCase& gemm : kCases) {
    const CanonicalWeights weights =
        RandomWeights(WeightsRecipeNamed(gemm.recipe), 49, 96, random());
    const ProgramWeightsMap shapes = {
        {"w", {WeightsIdOf("w"), weights.header()}}};
    for (const NumberType x_type : kFloatTypes) {
      for (const NumberType type : kFloatTypes) {
        ProgramDraft draft(type);
        const ValueNumber c = draft.Gemm(draft.Input(x_type, 96), "w");
        draft.last().mode = gemm.mode;
        if (gemm.mode == ComputeMode::kA16 && x_type == NumberType::kFloat32) {
          draft.last().rounding = FloatType::kFloat16;
        }
        const CheckedProgram program = CheckedOrDie(draft.Finish({c}), shapes);
        const int64_t m = kRows[next_rows++ % std::size(kRows)];
        RunAndJudge(program, {&weights}, {m, RandomInputs(program, m), {}});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramOpsTest,
                         testing::ValuesIn(ConformanceBackends()), BackendName);

}  // namespace
}  // namespace qgemm
