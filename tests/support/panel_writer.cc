// SPDX-License-Identifier: Apache-2.0
//
// Cuts row-major arrays into rectangles.

#include "tests/support/panel_writer.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status_macros.h"

namespace qgemm {
namespace {

using Step = std::function<absl::Status(WeightsSink*)>;

// 0, some values between, end: ascending without repeats.
std::vector<int64_t> RandomCuts(int64_t end, RandomGenerator* random) {
  std::vector<int64_t> cuts = {0, end};
  const int64_t inner = RandomInt(0, 4, random);
  for (int64_t i = 0; i < inner; ++i) {
    cuts.push_back(RandomInt(0, end, random));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

struct Rectangle {
  int64_t row_begin;
  int64_t rows;
  int64_t column_begin;
  int64_t columns;
};

std::vector<Rectangle> RandomRectangles(int64_t rows, int64_t columns,
                                        RandomGenerator* random) {
  std::vector<Rectangle> rectangles;
  const std::vector<int64_t> row_cuts = RandomCuts(rows, random);
  for (size_t i = 0; i + 1 < row_cuts.size(); ++i) {
    const std::vector<int64_t> column_cuts = RandomCuts(columns, random);
    for (size_t j = 0; j + 1 < column_cuts.size(); ++j) {
      rectangles.push_back({row_cuts[i], row_cuts[i + 1] - row_cuts[i],
                            column_cuts[j],
                            column_cuts[j + 1] - column_cuts[j]});
    }
  }
  return rectangles;
}

// The rectangle's bytes out of rows of `pitch` elements of `size` bytes.
std::vector<uint8_t> CopyOut(const std::vector<uint8_t>& array, int64_t pitch,
                             int64_t size, const Rectangle& rectangle) {
  std::vector<uint8_t> bytes;
  for (int64_t row = 0; row < rectangle.rows; ++row) {
    const auto begin =
        array.begin() +
        ((rectangle.row_begin + row) * pitch + rectangle.column_begin) * size;
    bytes.insert(bytes.end(), begin, begin + rectangle.columns * size);
  }
  return bytes;
}

void AddQuantizedSteps(const CanonicalWeights& weights, RandomGenerator* random,
                       std::vector<Step>* steps) {
  const WeightsHeader& header = weights.header();
  const int64_t groups = header.groups_per_row();
  for (const Rectangle& r : RandomRectangles(header.n, header.k, random)) {
    steps->push_back([&weights, r](WeightsSink* sink) {
      const std::vector<uint8_t> codes =
          CopyOut(weights.codes(), weights.header().k, 1, r);
      return sink->WriteCodes(
          {r.row_begin, r.rows, r.column_begin, r.columns, codes});
    });
  }
  for (const Rectangle& r : RandomRectangles(header.n, groups, random)) {
    steps->push_back([&weights, groups, r](WeightsSink* sink) {
      const std::vector<uint8_t> scales = CopyOut(
          weights.scales(), groups, SizeOf(weights.header().scale_type), r);
      return sink->WriteScales(
          {r.row_begin, r.rows, r.column_begin, r.columns, scales});
    });
  }
  if (header.has_zeros) {
    for (const Rectangle& r : RandomRectangles(header.n, groups, random)) {
      steps->push_back([&weights, groups, r](WeightsSink* sink) {
        const std::vector<uint8_t> zeros =
            CopyOut(weights.zeros(), groups, 1, r);
        return sink->WriteZeros(
            {r.row_begin, r.rows, r.column_begin, r.columns, zeros});
      });
    }
  }
  if (weights.tensor_scale() != 1.0f) {
    steps->push_back([&weights](WeightsSink* sink) {
      return sink->SetTensorScale(weights.tensor_scale());
    });
  }
}

void AddDenseSteps(const CanonicalWeights& weights, RandomGenerator* random,
                   std::vector<Step>* steps) {
  const int64_t row_bytes =
      weights.header().k * SizeOf(weights.header().dense_type);
  const std::vector<int64_t> cuts = RandomCuts(weights.header().n, random);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t begin = cuts[i];
    const int64_t rows = cuts[i + 1] - begin;
    steps->push_back([&weights, begin, rows, row_bytes](WeightsSink* sink) {
      return sink->WriteDense(
          {begin, rows,
           absl::MakeConstSpan(weights.dense())
               .subspan(begin * row_bytes, rows * row_bytes)});
    });
  }
}

}  // namespace

absl::Status WriteWhole(const CanonicalWeights& weights, WeightsSink* sink) {
  const WeightsHeader& header = weights.header();
  RETURN_IF_ERROR(sink->Begin(header));
  if (header.kind == WeightsHeader::Kind::kDense) {
    return sink->WriteDense({0, header.n, weights.dense()});
  }
  const int64_t groups = header.groups_per_row();
  RETURN_IF_ERROR(
      sink->WriteScales({0, header.n, 0, groups, weights.scales()}));
  if (header.has_zeros) {
    RETURN_IF_ERROR(
        sink->WriteZeros({0, header.n, 0, groups, weights.zeros()}));
  }
  RETURN_IF_ERROR(
      sink->WriteCodes({0, header.n, 0, header.k, weights.codes()}));
  if (weights.tensor_scale() == 1.0f) return absl::OkStatus();
  return sink->SetTensorScale(weights.tensor_scale());
}

absl::Status WriteInRandomPanels(const CanonicalWeights& weights,
                                 RandomGenerator* random, WeightsSink* sink) {
  RETURN_IF_ERROR(sink->Begin(weights.header()));
  std::vector<Step> steps;
  if (weights.header().kind == WeightsHeader::Kind::kDense) {
    AddDenseSteps(weights, random, &steps);
  } else {
    AddQuantizedSteps(weights, random, &steps);
  }
  std::shuffle(steps.begin(), steps.end(), *random);
  for (const Step& step : steps) RETURN_IF_ERROR(step(sink));
  return absl::OkStatus();
}

}  // namespace qgemm
