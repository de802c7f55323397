// SPDX-License-Identifier: Apache-2.0
//
// Programs that suites draw are legal, or they would test refusals alone.

#include "tests/support/random_program.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/program_layers.h"
#include "tests/support/random_weights.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

constexpr int kPrograms = 5000;
constexpr int64_t kWidths[] = {64, 96, 1, 7, 32};

ProgramWeightsMap Weights() {
  ProgramWeightsMap weights;
  for (const char* recipe : {"q4_0", "dense_fp16", "ternary"}) {
    WeightsHeader header = WeightsRecipeNamed(recipe).header;
    header.n = 96;
    header.k = 64;
    weights[recipe] = {WeightsIdOf(recipe), header};
  }
  return weights;
}

std::string RandomBytes(RandomGenerator* random) {
  std::string bytes(RandomInt(0, 400, random), '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

TEST(RandomProgramTest, IsLegalWhateverTheBytes) {
  RandomGenerator random(FreshSeed());
  const ProgramWeightsMap weights = Weights();
  std::set<OpKind> kinds;
  for (int i = 0; i < kPrograms; ++i) {
    const std::string bytes = RandomBytes(&random);
    FuzzInput input(reinterpret_cast<const uint8_t*>(bytes.data()),
                    bytes.size());
    const auto checked =
        CheckProgram(RandomProgram({kWidths, &weights, 56}, &input), weights);
    ASSERT_TRUE(checked.ok()) << checked.status();
    for (const ProgramOp& op : checked->ops()) kinds.insert(op.kind);
  }
  EXPECT_EQ(kinds.size(), 10u);
}

}  // namespace
}  // namespace qgemm
