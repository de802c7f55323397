// SPDX-License-Identifier: Apache-2.0
//
// Properties of row ops that the conformance suite cannot see: any address, any
// cut of columns, either set of half conversions. It has the ops themselves.

#include "kernels/cpu/row_ops.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/programs/op_fields.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cpu {
namespace {

constexpr FloatType kTypes[] = {FloatType::kFloat32, FloatType::kFloat16,
                                FloatType::kBFloat16};
constexpr OpKind kKinds[] = {
    OpKind::kAdd,     OpKind::kMul,       OpKind::kAct,     OpKind::kClamp,
    OpKind::kRmsNorm, OpKind::kLayerNorm, OpKind::kConvert, OpKind::kTopK};

// An op of `kind` on random rows of one width, its result in a row of its own.
class OpOnRow {
 public:
  OpOnRow(OpKind kind, FloatType x_type, FloatType type, int64_t width,
          RandomGenerator* random)
      : x_type_(x_type),
        type_(kind == OpKind::kTopK ? FloatType::kFloat32 : type),
        width_(width),
        x_(RandomMatrix(x_type, 1, width, random)),
        y_(RandomMatrix(FloatType::kFloat32, 1, width, random)) {
    op_.kind = kind;
    op_.low = -0.25f;
    op_.high = 0.5f;
    op_.eps = 1e-5f;
    op_.top_k = width;
  }

  const ProgramOp& op() const { return op_; }

  // The result and, of TOP_K, the ids behind it, with the operands `shift`
  // bytes behind an aligned address. `compute` is called with the arguments.
  template <typename Compute>
  std::vector<uint8_t> Run(int64_t shift, const Compute& compute,
                           CpuIsa isa = SupportedCpuIsas().back()) const {
    const int64_t result_bytes = width_ * SizeOf(type_);
    const std::vector<uint8_t> x = Shifted(x_, shift);
    const std::vector<uint8_t> y = Shifted(y_, shift);
    std::vector<uint8_t> result(shift + result_bytes);
    std::vector<uint8_t> ids(shift + width_ * sizeof(int32_t));
    const SourceRow row = {y.data() + shift, FloatType::kFloat32, width_};
    const bool is_norm =
        op_.kind == OpKind::kRmsNorm || op_.kind == OpKind::kLayerNorm;
    const bool has_y = op_.kind == OpKind::kAdd || op_.kind == OpKind::kMul;
    compute(RowOpArgs{op_,
                      TableOf(isa).half_conversions,
                      {x.data() + shift, x_type_, width_},
                      has_y ? row : SourceRow(),
                      is_norm ? row : SourceRow(),
                      op_.kind == OpKind::kLayerNorm ? row : SourceRow(),
                      result.data() + shift,
                      type_,
                      width_,
                      ids.data() + shift});
    result.insert(result.end(), ids.begin() + shift, ids.end());
    return {result.begin() + shift, result.end()};
  }

 private:
  static std::vector<uint8_t> Shifted(const std::vector<uint8_t>& row,
                                      int64_t shift) {
    std::vector<uint8_t> shifted(shift);
    shifted.insert(shifted.end(), row.begin(), row.end());
    return shifted;
  }

  const FloatType x_type_;
  const FloatType type_;
  const int64_t width_;
  const std::vector<uint8_t> x_;
  const std::vector<uint8_t> y_;
  ProgramOp op_;
};

class RowOpsTest : public testing::Test {
 protected:
  // Calls body(op) for each kind and type.
  template <typename Body>
  void ForEachOp(int64_t width, const Body& body) {
    for (const OpKind kind : kKinds) {
      for (const FloatType x_type : kTypes) {
        for (const FloatType type : kTypes) {
          SCOPED_TRACE(testing::Message()
                       << Name(kind) << ", " << Name(x_type) << " to "
                       << Name(type) << ", width " << width);
          body(OpOnRow(kind, x_type, type, width, &random_));
        }
      }
    }
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_F(RowOpsTest, AddressesDoNotChangeBits) {
  for (const int64_t width : {1, 7, 300}) {
    ForEachOp(width, [](const OpOnRow& row) {
      EXPECT_EQ(row.Run(2, ComputeRow), row.Run(0, ComputeRow));
    });
  }
}

TEST_F(RowOpsTest, CutsOfColumnsDoNotChangeBits) {
  constexpr int64_t kWidth = 3 * kColumnBlock + 17;
  ForEachOp(kWidth, [&](const OpOnRow& row) {
    if (!IsColumnwise(row.op().kind)) return;
    const auto by_blocks = [&](const RowOpArgs& args) {
      for (int64_t begin = 0; begin < kWidth; begin += kColumnBlock) {
        ComputeColumns(args, begin, std::min(begin + kColumnBlock, kWidth));
      }
    };
    EXPECT_EQ(row.Run(0, by_blocks), row.Run(0, ComputeRow));
  });
}

TEST_F(RowOpsTest, InstructionSetsDoNotChangeBits) {
  ForEachOp(41, [](const OpOnRow& row) {
    EXPECT_EQ(row.Run(0, ComputeRow, CpuIsa::kScalar), row.Run(0, ComputeRow));
  });
}

// The lanes of a sum are columns: one element more or less at the end moves no
// other.
TEST_F(RowOpsTest, ANormOfOnesIsOneAtAnyWidth) {
  for (int64_t width = 1; width < 2 * kColumnBlock + 10; ++width) {
    const std::vector<float> ones(width, 1.0f);
    std::vector<float> result(width);
    ProgramOp op;
    op.kind = OpKind::kRmsNorm;
    ComputeRow({op,
                TableOf(CpuIsa::kScalar).half_conversions,
                {reinterpret_cast<const uint8_t*>(ones.data()),
                 FloatType::kFloat32, width},
                {},
                {},
                {},
                reinterpret_cast<uint8_t*>(result.data()),
                FloatType::kFloat32,
                width,
                nullptr});
    ASSERT_EQ(result, ones) << width;
  }
}

}  // namespace
}  // namespace qgemm::cpu
