// SPDX-License-Identifier: Apache-2.0
//
// Rows pass through blocks of fp32 that stay in the first-level cache: loaded,
// computed in place by a loop that compiles to vectors, and stored.

#include "kernels/cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/float16.h"

namespace qgemm::cpu {
namespace {

struct Block {
  float elements[kColumnBlock];
};

// Reads columns [begin, begin + count) to fp32.
void Load(const RowOpArgs& args, const SourceRow& row, int64_t begin,
          int64_t count, Block& block) {
  const uint8_t* const bytes = row.elements + begin * SizeOf(row.type);
  switch (row.type) {
    case FloatType::kFloat32:
      std::memcpy(block.elements, bytes, count * sizeof(float));
      return;
    case FloatType::kFloat16:
      args.half_conversions.from_half(reinterpret_cast<const uint16_t*>(bytes),
                                      count, block.elements);
      return;
    case FloatType::kBFloat16: {
      const auto* elements = reinterpret_cast<const uint16_t*>(bytes);
      for (int64_t i = 0; i < count; ++i) {
        block.elements[i] = BFloat16ToFloat(elements[i]);
      }
      return;
    }
  }
}

// Rounds to columns [begin, begin + count) of the result.
void Store(const RowOpArgs& args, const Block& block, int64_t begin,
           int64_t count) {
  uint8_t* const bytes = args.result + begin * SizeOf(args.type);
  switch (args.type) {
    case FloatType::kFloat32:
      std::memcpy(bytes, block.elements, count * sizeof(float));
      return;
    case FloatType::kFloat16:
      args.half_conversions.to_half(block.elements, count,
                                    reinterpret_cast<uint16_t*>(bytes));
      return;
    case FloatType::kBFloat16: {
      auto* elements = reinterpret_cast<uint16_t*>(bytes);
      for (int64_t i = 0; i < count; ++i) {
        elements[i] = FloatToBFloat16(block.elements[i]);
      }
      return;
    }
  }
}

// Calls body(begin, count) for the blocks of columns [begin, end), in order.
template <typename Body>
void ForBlocks(int64_t begin, int64_t end, const Body& body) {
  for (int64_t first = begin; first < end; first += kColumnBlock) {
    body(first, std::min(kColumnBlock, end - first));
  }
}

void ClampBlock(float low, float high, Block& x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float element = x.elements[i];
    const float raised = element < low ? low : element;
    x.elements[i] = raised > high ? high : raised;
  }
}

void ComputeBlock(const ProgramOp& op, const Block& y, Block& x,
                  int64_t count) {
  switch (op.kind) {
    case OpKind::kAdd:
      for (int64_t i = 0; i < count; ++i) x.elements[i] += y.elements[i];
      return;
    case OpKind::kMul:
      for (int64_t i = 0; i < count; ++i) x.elements[i] *= y.elements[i];
      return;
    case OpKind::kAct:
      return Activate(op.activation, absl::MakeSpan(x.elements, count));
    case OpKind::kClamp:
      return ClampBlock(op.low, op.high, x, count);
    case OpKind::kSlice:
    case OpKind::kConvert:
      return;
    case OpKind::kGemm:
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kTopK:
      break;
  }
  LOG(FATAL) << Name(op.kind) << " is not computed by columns";
}

constexpr int kLanes = 8;

// The sum of term(x) over columns [begin, end), in lanes by column that are
// added in pairs.
template <typename Term>
double SumOver(const RowOpArgs& args, int64_t begin, int64_t end,
               const Term& term) {
  double lanes[kLanes] = {};
  ForBlocks(begin, end, [&](int64_t first, int64_t count) {
    Block x;
    Load(args, args.x, first, count, x);
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += term(x.elements[i + lane]);
      }
    }
    for (int lane = 0; i < count; ++i, ++lane) {
      lanes[lane] += term(x.elements[i]);
    }
  });
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

double MeanSquareAround(const RowOpArgs& args, int64_t begin, int64_t end,
                        double center) {
  const auto square = [center](float x) { return (x - center) * (x - center); };
  return SumOver(args, begin, end, square) / static_cast<double>(end - begin);
}

// Weights and biases of a norm; absent ones change nothing.
struct NormConstants {
  Block weight;
  Block bias;

  NormConstants() {
    std::fill_n(weight.elements, kColumnBlock, 1.0f);
    // The zero that leaves every number, and -0 too, as it is.
    std::fill_n(bias.elements, kColumnBlock, -0.0f);
  }
};

// (x - mean) / sqrt(mean square around it + eps) * weight + bias over columns
// [begin, end), which share a mean.
void Normalize(const RowOpArgs& args, int64_t begin, int64_t end, double mean,
               NormConstants& constants) {
  const double scale =
      1 / std::sqrt(MeanSquareAround(args, begin, end, mean) + args.op.eps);
  ForBlocks(begin, end, [&](int64_t first, int64_t count) {
    Block x;
    Load(args, args.x, first, count, x);
    if (const SourceRow& weight = args.norm_weight;
        weight.elements != nullptr) {
      const int64_t of_run =
          weight.width == args.x.width ? first : first - begin;
      Load(args, weight, of_run, count, constants.weight);
    }
    if (args.norm_bias.elements != nullptr) {
      Load(args, args.norm_bias, first, count, constants.bias);
    }
    for (int64_t i = 0; i < count; ++i) {
      x.elements[i] = static_cast<float>((x.elements[i] - mean) * scale *
                                             constants.weight.elements[i] +
                                         constants.bias.elements[i]);
    }
    Store(args, x, first, count);
  });
}

void RmsNorm(const RowOpArgs& args) {
  const int64_t width = args.x.width;
  const int64_t run = args.op.group == 0 ? width : args.op.group;
  NormConstants constants;
  for (int64_t begin = 0; begin < width; begin += run) {
    Normalize(args, begin, begin + run, 0, constants);
  }
}

void LayerNorm(const RowOpArgs& args) {
  const int64_t width = args.x.width;
  const double sum =
      SumOver(args, 0, width, [](float x) -> double { return x; });
  NormConstants constants;
  Normalize(args, 0, width, sum / static_cast<double>(width), constants);
}

// An integer that orders elements as TOP_K does: NaN above all, both zeros
// equal.
uint32_t RankOf(float x) {
  const uint32_t bits = FloatBits(x == 0 ? 0.0f : x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return ~uint32_t{0};
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// Keeps the k best columns in a heap with the worst of them in front. Keys are
// unequal: behind the rank stands the column, the lower the better.
void TopK(const RowOpArgs& args) {
  const auto better = std::greater<uint64_t>();
  const int64_t k = args.width;
  CHECK_LE(k, kMaxTopK);
  uint64_t best[kMaxTopK];
  int64_t found = 0;
  ForBlocks(0, args.x.width, [&](int64_t first, int64_t count) {
    Block x;
    Load(args, args.x, first, count, x);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t key = uint64_t{RankOf(x.elements[i])} << 32 |
                           ~static_cast<uint32_t>(first + i);
      if (found == k) {
        if (key < best[0]) continue;
        std::pop_heap(best, best + found--, better);
      }
      best[found++] = key;
      std::push_heap(best, best + found, better);
    }
  });
  std::sort_heap(best, best + k, better);
  for (int64_t i = 0; i < k; ++i) {
    const uint32_t column = ~static_cast<uint32_t>(best[i]);
    const float value =
        LoadFloat(args.x.type, args.x.elements + column * SizeOf(args.x.type));
    std::memcpy(args.result + i * sizeof(value), &value, sizeof(value));
    std::memcpy(args.ids + i * sizeof(column), &column, sizeof(column));
  }
}

}  // namespace

void ComputeColumns(const RowOpArgs& args, int64_t begin, int64_t end) {
  Block y = {};
  if (args.y.width == 1) {
    std::fill_n(y.elements, kColumnBlock,
                LoadFloat(args.y.type, args.y.elements));
  }
  ForBlocks(begin, end, [&](int64_t first, int64_t count) {
    Block x;
    Load(args, args.x, first + args.op.begin, count, x);
    if (args.y.width > 1) Load(args, args.y, first, count, y);
    ComputeBlock(args.op, y, x, count);
    Store(args, x, first, count);
  });
}

void ComputeRow(const RowOpArgs& args) {
  switch (args.op.kind) {
    case OpKind::kRmsNorm:
      return RmsNorm(args);
    case OpKind::kLayerNorm:
      return LayerNorm(args);
    case OpKind::kTopK:
      return TopK(args);
    default:
      return ComputeColumns(args, 0, args.width);
  }
}

}  // namespace qgemm::cpu
