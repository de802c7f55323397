// SPDX-License-Identifier: Apache-2.0
//
// The cut of programs and their batches: every op and row once, and each row
// by its request alone.

#include "kernels/cuda/plan/program_plan.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/value_layout.h"
#include "tests/support/program_layers.h"

namespace qgemm::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

constexpr qgemm::LayerShape kShape = {64, 64, 32, 32, 96};

CheckedProgram Checked(const WorkedProgram& worked) {
  auto checked = CheckProgram(worked.program, ShapesOf(worked));
  EXPECT_TRUE(checked.ok()) << checked.status();
  return *std::move(checked);
}

// Segments of whole requests.
std::vector<ProgramSegment> Requests(const std::vector<int64_t>& rows) {
  std::vector<ProgramSegment> segments;
  for (const int64_t m : rows) segments.push_back({m, 0, m});
  return segments;
}

TEST(CutIntoStepsTest, GemmsAreAloneAndOtherOpsTogether) {
  const CheckedProgram program =
      Checked(LlamaLayer(kShape, {NumberType::kBFloat16}));
  // o, add norm, gate, up, act mul, down, add norm, q, k, v.
  EXPECT_THAT(CutIntoSteps(program.ops(), 16),
              ElementsAre(FieldsAre(0, 1, true), FieldsAre(1, 2, false),
                          FieldsAre(3, 1, true), FieldsAre(4, 1, true),
                          FieldsAre(5, 2, false), FieldsAre(7, 1, true),
                          FieldsAre(8, 2, false), FieldsAre(10, 1, true),
                          FieldsAre(11, 1, true), FieldsAre(12, 1, true)));
}

TEST(CutIntoStepsTest, RowOpsBeyondALaunchStartAnother) {
  std::vector<ProgramOp> ops(5);
  for (ProgramOp& op : ops) op.kind = OpKind::kConvert;
  EXPECT_THAT(CutIntoSteps(ops, 2),
              ElementsAre(FieldsAre(0, 2, false), FieldsAre(2, 2, false),
                          FieldsAre(4, 1, false)));
}

TEST(RowPassesTest, FewRowsStandBeforeMany) {
  RowPasses passes;
  passes.Make(Requests({3, 1, 70, 2}), 128);
  EXPECT_THAT(passes.passes(), ElementsAre(FieldsAre(0, 4, 76)));
  EXPECT_THAT(passes.pieces(),
              ElementsAre(FieldsAre(1, 0, 1, 0), FieldsAre(3, 0, 2, 1),
                          FieldsAre(0, 0, 3, 3), FieldsAre(2, 0, 70, 6)));
}

TEST(RowPassesTest, ALongSegmentIsCutByItself) {
  RowPasses passes;
  passes.Make(Requests({100, 10}), 64);
  EXPECT_THAT(passes.pieces(),
              ElementsAre(FieldsAre(1, 0, 10, 0), FieldsAre(0, 0, 64, 0),
                          FieldsAre(0, 64, 36, 0)));
  EXPECT_EQ(passes.passes().size(), 3u);
}

TEST(RowPassesTest, APartOfARequestKeepsItsNumbers) {
  RowPasses passes;
  const std::vector<ProgramSegment> segments = {{100, 40, 30}};
  passes.Make(segments, 16);
  EXPECT_THAT(passes.pieces(),
              ElementsAre(FieldsAre(0, 40, 16, 0), FieldsAre(0, 56, 14, 0)));
}

// Numbers of the values that a step reads or makes, constants left out.
std::set<ValueNumber> ValuesOf(const CheckedProgram& program,
                               const ProgramStep& step) {
  std::set<ValueNumber> numbers;
  for (int64_t op = step.first_op; op < step.first_op + step.ops; ++op) {
    const ProgramOp& declared = program.ops()[op];
    for (const ValueNumber read : {declared.x, declared.y}) {
      if (read == kNoValue) continue;
      if (program.values()[read].origin != ProgramValue::Origin::kConstant) {
        numbers.insert(read);
      }
    }
    numbers.insert(program.result_of(op));
  }
  return numbers;
}

// Rows of a launch are at any of its ops.
TEST(PlaceValuesTest, ValuesOfAStepShareNoByte) {
  for (const WorkedProgram& worked :
       WorkedPrograms(kShape, {NumberType::kBFloat16})) {
    const CheckedProgram program = Checked(worked);
    const auto steps = CutIntoSteps(program.ops(), 16);
    const ValueLayout layout = LayOutValues(program, StepOfEachOp(steps));
    for (const int64_t rows : {1, 3, 64}) {
      ValueMemory memory;
      PlaceValues(program, layout, rows, memory);
      for (const ProgramStep& step : steps) {
        std::map<int64_t, int64_t> ends;  // by begin
        for (const ValueNumber number : ValuesOf(program, step)) {
          const int64_t begin = memory.offsets[number];
          EXPECT_EQ(begin % 16, 0);
          EXPECT_TRUE(ends.emplace(begin, begin).second) << worked.name;
          ends[begin] += rows * program.values()[number].row_bytes();
        }
        int64_t end = 0;
        for (const auto& [begin, of] : ends) {
          EXPECT_GE(begin, end) << worked.name << " op " << step.first_op;
          end = of;
        }
        EXPECT_LE(end, memory.bytes);
      }
    }
  }
}

TEST(RecordedRowsTest, HasRoomAndAnEnd) {
  for (int64_t rows = 1; rows <= kMaxRecordedRows; ++rows) {
    EXPECT_GE(RecordedRows(rows), rows);
    EXPECT_LT(RecordedRows(rows), rows < 8 ? 2 * rows : rows + 16);
  }
  EXPECT_EQ(RecordedRows(kMaxRecordedRows + 1), 0);
}

}  // namespace
}  // namespace qgemm::cuda
