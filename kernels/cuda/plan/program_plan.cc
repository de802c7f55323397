// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/plan/program_plan.h"

#include <algorithm>
#include <numeric>

#include "base/host_device.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

std::vector<ProgramStep> CutIntoSteps(absl::Span<const ProgramOp> ops,
                                      int64_t max_row_ops) {
  std::vector<ProgramStep> steps;
  for (int64_t op = 0; op < static_cast<int64_t>(ops.size()); ++op) {
    const bool is_gemm = ops[op].kind == OpKind::kGemm;
    if (is_gemm || steps.empty() || steps.back().is_gemm ||
        steps.back().ops == max_row_ops) {
      steps.push_back({op, 0, is_gemm});
    }
    ++steps.back().ops;
  }
  return steps;
}

std::vector<int64_t> StepOfEachOp(absl::Span<const ProgramStep> steps) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < steps.size(); ++i) {
    result.insert(result.end(), steps[i].ops, static_cast<int64_t>(i));
  }
  return result;
}

void RowPasses::Make(absl::Span<const ProgramSegment> segments,
                     int64_t max_rows) {
  order_.resize(segments.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    return segments[a].rows != segments[b].rows
               ? segments[a].rows < segments[b].rows
               : a < b;
  });
  pieces_.clear();
  passes_.clear();
  for (const int64_t i : order_) {
    const ProgramSegment& segment = segments[i];
    for (int64_t row = 0; row < segment.rows; row += max_rows) {
      Add({i, segment.first + row, std::min(max_rows, segment.rows - row), 0},
          max_rows);
    }
  }
}

void RowPasses::Add(RowPiece piece, int64_t max_rows) {
  if (passes_.empty() || passes_.back().rows + piece.rows > max_rows) {
    passes_.push_back({static_cast<int64_t>(pieces_.size()), 0, 0});
  }
  RowPass& pass = passes_.back();
  piece.row = pass.rows;
  pass.rows += piece.rows;
  ++pass.count;
  pieces_.push_back(piece);
}

int64_t DeviceRowBytes(const CheckedProgram& program,
                       const ValueLayout& layout) {
  return program.input_row_bytes() + program.output_row_bytes() +
         layout.scratch_bytes;
}

void PlaceValues(const CheckedProgram& program, const ValueLayout& layout,
                 int64_t rows, ValueMemory& memory) {
  const auto& values = program.values();
  memory.offsets.assign(values.size(), 0);
  int64_t end = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto where = layout.places[i].memory;
    if (where != ValuePlace::Memory::kInputs &&
        where != ValuePlace::Memory::kOutputs) {
      continue;
    }
    memory.offsets[i] = end;
    end += RoundUp(rows * values[i].row_bytes(), kAlignment);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (layout.places[i].memory != ValuePlace::Memory::kScratch) continue;
    memory.offsets[i] = end + rows * layout.places[i].offset;
  }
  memory.bytes = end + rows * layout.scratch_bytes;
}

// The decode kernel has tiles of 8, 16, 32 and 64 rows; row-wise ops have a row
// each.
int64_t RecordedRows(int64_t rows) {
  for (const int64_t room : {1, 2, 4, 8, 16, 32, 48, 64}) {
    if (rows <= room) return room;
  }
  return 0;
}

}  // namespace qgemm::cuda
