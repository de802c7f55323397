// SPDX-License-Identifier: Apache-2.0
//
// A tile passes through the ops in order. Between two GEMMs a thread takes a
// row through all ops, while it is in its cache; where rows are fewer than
// threads, threads share the columns of one op after the other.

#include "kernels/cpu/program_executor.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "kernels/programs/op_fields.h"

namespace qgemm::cpu {
namespace {

// Columns that a thread takes at a time, where threads share a row: some
// microseconds of work.
constexpr int64_t kColumnsPerItem = 8 * kColumnBlock;

}  // namespace

absl::StatusOr<std::vector<absl::Duration>> ProgramExecutor::Run(
    const ProgramBatch& batch) {
  op_times_.clear();
  if (batch.time_ops) op_times_.resize(batch.program->program().ops().size());
  const absl::Status status = RunTiles(batch);
  if (scratch_.held_bytes() > kKeptScratchBytes) scratch_ = AlignedMemory();
  RETURN_IF_ERROR(status);
  return op_times_;
}

absl::Status ProgramExecutor::RunTiles(const ProgramBatch& batch) {
  program_ = static_cast<const CpuProgram*>(batch.program.get());
  const int64_t tile_rows = TileRows(batch);
  RETURN_IF_ERROR(Reserve(tile_rows * program_->layout().scratch_bytes));
  tile_.clear();
  for (const ProgramSegment& segment : batch.segments) {
    for (int64_t row = 0; row < segment.rows; ++row) {
      tile_.push_back({&segment, segment.first + row});
      if (static_cast<int64_t>(tile_.size()) < tile_rows) continue;
      RETURN_IF_ERROR(RunTile());
      tile_.clear();
    }
  }
  return tile_.empty() ? absl::OkStatus() : RunTile();
}

// Whole strips of the microkernels for many rows where they fit. Their scratch
// is within the limit, or that of one row.
int64_t ProgramExecutor::TileRows(const ProgramBatch& batch) const {
  const int64_t row_bytes = program_->layout().scratch_bytes;
  const int64_t rows = batch.rows();
  if (row_bytes == 0) return rows;
  const int64_t fitting = scratch_limit_bytes_ / row_bytes;
  if (fitting >= rows) return rows;
  constexpr int64_t kStripRows = 64;
  if (fitting >= kStripRows) return fitting / kStripRows * kStripRows;
  return std::max<int64_t>(fitting, 1);
}

absl::Status ProgramExecutor::Reserve(int64_t scratch_bytes) {
  if (scratch_bytes <= scratch_.held_bytes()) return absl::OkStatus();
  scratch_ = AlignedMemory();
  ASSIGN_OR_RETURN(scratch_, AlignedMemory::Allocate(scratch_bytes));
  return absl::OkStatus();
}

absl::Status ProgramExecutor::RunTile() {
  if (!op_times_.empty()) return RunTimedTile();
  const std::vector<ProgramOp>& ops = program_->program().ops();
  const int64_t count = static_cast<int64_t>(ops.size());
  for (int64_t op = 0; op < count;) {
    if (ops[op].kind == OpKind::kGemm) {
      RETURN_IF_ERROR(RunGemm(op++));
      continue;
    }
    const int64_t begin = op;
    while (op < count && ops[op].kind != OpKind::kGemm) ++op;
    RunRowOps(begin, op);
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::RunTimedTile() {
  const std::vector<ProgramOp>& ops = program_->program().ops();
  for (size_t op = 0; op < ops.size(); ++op) {
    const absl::Time start = SteadyClock().Now();
    if (ops[op].kind == OpKind::kGemm) {
      RETURN_IF_ERROR(RunGemm(op));
    } else {
      RunRowOp(op);
    }
    op_times_[op] += SteadyClock().Now() - start;
  }
  return absl::OkStatus();
}

absl::Status ProgramExecutor::RunGemm(int64_t op) {
  const CheckedProgram& program = program_->program();
  const ValueNumber result = program.result_of(op);
  gemm_rows_.clear();
  for (size_t row = 0; row < tile_.size(); ++row) {
    gemm_rows_.push_back({AddressOf(program.ops()[op].x, row),
                          AddressOfResult(result, row), tile_[row].segment->m});
  }
  return runner_.RunRows(program_->weights_of(op), program.signature_of(op),
                         gemm_rows_);
}

void ProgramExecutor::RunRowOps(int64_t begin, int64_t end) {
  const int64_t rows = static_cast<int64_t>(tile_.size());
  if (rows < runner_.threads()) {
    for (int64_t op = begin; op < end; ++op) RunRowOp(op);
    return;
  }
  runner_.pool().ParallelFor(rows, [&](int64_t row) {
    for (int64_t op = begin; op < end; ++op) ComputeRow(ArgsOf(op, row));
  });
}

void ProgramExecutor::RunRowOp(int64_t op) {
  const int64_t rows = static_cast<int64_t>(tile_.size());
  const CheckedProgram& program = program_->program();
  if (!IsColumnwise(program.ops()[op].kind)) {
    runner_.pool().ParallelFor(
        rows, [&](int64_t row) { ComputeRow(ArgsOf(op, row)); });
    return;
  }
  const int64_t width = program.values()[program.result_of(op)].width;
  const int64_t items = CeilDiv(width, kColumnsPerItem);
  runner_.pool().ParallelFor(rows * items, [&](int64_t item) {
    const int64_t begin = item % items * kColumnsPerItem;
    ComputeColumns(ArgsOf(op, item / items), begin,
                   std::min(begin + kColumnsPerItem, width));
  });
}

RowOpArgs ProgramExecutor::ArgsOf(int64_t op, int64_t row) const {
  const CheckedProgram& program = program_->program();
  const ProgramOp& declared = program.ops()[op];
  const ValueNumber result = program.result_of(op);
  return {declared,
          runner_.half_conversions(),
          SourceOf(declared.x, row),
          SourceOf(declared.y, row),
          SourceOf(declared.norm_weight, row),
          SourceOf(declared.norm_bias, row),
          AddressOfResult(result, row),
          FloatTypeOf(declared.type),
          program.values()[result].width,
          declared.kind == OpKind::kTopK ? AddressOfResult(result + 1, row)
                                         : nullptr};
}

SourceRow ProgramExecutor::SourceOf(ValueNumber number, int64_t row) const {
  if (number == kNoValue) return {};
  const ProgramValue& value = program_->program().values()[number];
  return {AddressOf(number, row), FloatTypeOf(value.type), value.width};
}

const uint8_t* ProgramExecutor::AddressOf(ValueNumber number,
                                          int64_t row) const {
  const CheckedProgram& program = program_->program();
  const ValuePlace& place = program_->layout().places[number];
  if (place.memory == ValuePlace::Memory::kConstant) {
    return program.program().constants[place.offset].bytes.data();
  }
  if (place.memory == ValuePlace::Memory::kInputs) {
    const TileRow& at = tile_[row];
    return at.segment->inputs + place.offset * at.segment->m +
           at.number * program.values()[number].row_bytes();
  }
  return AddressOfResult(number, row);
}

uint8_t* ProgramExecutor::AddressOfResult(ValueNumber number,
                                          int64_t row) const {
  const ValuePlace& place = program_->layout().places[number];
  if (place.memory == ValuePlace::Memory::kScratch) {
    return scratch_.data() + row * program_->layout().scratch_bytes +
           place.offset;
  }
  CHECK(place.memory == ValuePlace::Memory::kOutputs);
  const TileRow& at = tile_[row];
  return at.segment->outputs + place.offset * at.segment->m +
         at.number * program_->program().values()[number].row_bytes();
}

}  // namespace qgemm::cpu
