// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/program_launcher.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/programs/value_layout.h"

namespace qgemm::cuda {
namespace {

// Rows of a batch whose values come and go as soon as they can, at least: fewer
// take no time worth a counter.
constexpr int64_t kMinEarlyRows = 17;

int CounterCount(const CudaProgram& program) {
  return static_cast<int>(program.fused_steps().size()) * kGroupCounters;
}

bool KernelsMove(const CudaProgram& program, int64_t rows) {
  const CheckedProgram& checked = program.program();
  return program.is_moved_by_kernels() && rows <= kMaxTableRows &&
         rows * (checked.input_row_bytes() + checked.output_row_bytes()) <=
             kMaxMovedBytes;
}

// The place of a batch of one whole request.
RequestPlace PlaceOf(const ProgramBatch& batch,
                     absl::Span<const RowPiece> pieces) {
  if (pieces.size() != 1) return {};
  const ProgramSegment& segment = batch.segments[pieces[0].segment];
  if (pieces[0].rows != segment.m) return {};
  return {segment.inputs, segment.outputs, segment.m};
}

}  // namespace

absl::Status ProgramLauncher::Enqueue(const ProgramBatch& batch,
                                      const LaunchEnvironment& environment) {
  program_ = static_cast<const CudaProgram*>(batch.program.get());
  layout_ = &program_->layout();
  passes_.Make(batch.segments, program_->pass_rows());
  const auto pass_of = [&](const RowPass& pass) {
    return Pass{batch, environment,
                passes_.pieces().subspan(pass.first, pass.count), pass.rows};
  };
  if (passes_.passes().size() == 1) {
    const Pass pass = pass_of(passes_.passes().front());
    const int64_t rows = RecordedRows(pass.rows);
    if (rows > 0 && pass.pieces.back().rows <= program_->max_recorded_rows()) {
      return EnqueueRecorded(pass, rows);
    }
    if (KernelsMove(*program_, pass.rows)) {
      SetSegments(pass.pieces);
      RETURN_IF_ERROR(ReserveFor(pass.rows, environment));
      RETURN_IF_ERROR(FillTable(pass, pass.rows));
      RETURN_IF_ERROR(EnqueueByKernels(environment, pass.rows, {}));
      end_.ExpectStamps();
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(end_.Mark());
  for (const RowPass& pass : passes_.passes()) {
    RETURN_IF_ERROR(EnqueueByCopies(pass_of(pass)));
  }
  return absl::OkStatus();
}

void ProgramLauncher::SetSegments(absl::Span<const RowPiece> pieces) {
  segments_.clear();
  segment_rows_.clear();
  for (const RowPiece& piece : pieces) {
    segments_.push_back({piece.rows, nullptr, nullptr});
    segment_rows_.push_back(piece.row);
  }
}

void ProgramLauncher::SetRows(int64_t rows) {
  segments_.clear();
  segment_rows_.clear();
  for (int64_t row = 0; row < rows; ++row) {
    segments_.push_back({1, nullptr, nullptr});
    segment_rows_.push_back(row);
  }
}

absl::Status ProgramLauncher::ReserveFor(int64_t rows,
                                         const LaunchEnvironment& environment) {
  PlaceValues(program_->program(), *layout_, rows, places_);
  int64_t scratch_bytes = 0;
  for (const ProgramStep& step : program_->steps()) {
    if (!step.is_gemm) continue;
    PlanGemm(step.first_op, environment);
    scratch_bytes = std::max(scratch_bytes, plan_.scratch_bytes());
  }
  const int64_t value_bytes = places_.bytes + program_->read_ahead_bytes();
  const int64_t counter_bytes = CounterCount(*program_) * sizeof(unsigned);
  if (value_bytes <= values_.size_bytes() &&
      scratch_bytes <= gemm_scratch_.size_bytes() &&
      counter_bytes <= counters_.size_bytes()) {
    return absl::OkStatus();
  }
  // Recordings have the addresses.
  recorded_.Clear();
  placed_.Clear();
  RETURN_IF_ERROR(Reserve(counter_bytes, counters_));
  RETURN_IF_ERROR(Reserve(value_bytes, values_));
  return Reserve(scratch_bytes, gemm_scratch_);
}

absl::Status ProgramLauncher::FillTable(const Pass& pass, int64_t rows) {
  RETURN_IF_ERROR(tables_.Reserve());
  HostRow* const rows_of_table = tables_.rows();
  for (const RowPiece& piece : pass.pieces) {
    const ProgramSegment& segment = pass.batch.segments[piece.segment];
    for (int64_t i = 0; i < piece.rows; ++i) {
      rows_of_table[piece.row + i] = {segment.inputs, segment.outputs,
                                      segment.m, piece.number + i};
    }
  }
  std::fill(rows_of_table + pass.rows, rows_of_table + rows, HostRow());
  return absl::OkStatus();
}

RequestPlace ProgramLauncher::RecordedPlaceOf(const Pass& pass,
                                              const RecordedKey& key) {
  const RequestPlace place = PlaceOf(pass.batch, pass.pieces);
  RecordedBatch* const any = recorded_.Find(key);
  if (any == nullptr || place.m == 0 || !any->places.Observe(place)) return {};
  const RecordedKey placed = {std::get<0>(key), std::get<1>(key), place};
  return placed_.Find(placed) != nullptr || placed_.HasRoom() ? place
                                                              : RequestPlace();
}

absl::StatusOr<Graph> ProgramLauncher::Record(
    const LaunchEnvironment& environment, int64_t rows,
    const RequestPlace& place) {
  SetRows(rows);
  RETURN_IF_ERROR(ReserveFor(rows, environment));
  return Graph::Record(
      stream_, [&] { return EnqueueByKernels(environment, rows, place); });
}

absl::Status ProgramLauncher::EnqueueRecorded(const Pass& pass, int64_t rows) {
  layout_ = &program_->fused_layout();
  RecordedKey key = {program_->serial(), rows, RequestPlace()};
  const RequestPlace place = RecordedPlaceOf(pass, key);
  if (place.m == 0) RETURN_IF_ERROR(FillTable(pass, rows));
  std::get<RequestPlace>(key) = place;
  Recordings& recordings = place.m > 0 ? placed_ : recorded_;
  RecordedBatch* recorded = recordings.Find(key);
  if (recorded == nullptr) {
    RecordedBatch made;
    ASSIGN_OR_RETURN(made.graph, Record(pass.environment, rows, place));
    recorded = recordings.Add(key, std::move(made));
  } else {
    end_.SleepBy(&recorded->wait);
  }
  end_.EndOn(recorded_stream_);
  RETURN_IF_ERROR(recorded->graph.Launch(recorded_stream_));
  end_.ExpectStamps();
  return absl::OkStatus();
}

absl::Status ProgramLauncher::EnqueueByKernels(
    const LaunchEnvironment& environment, int64_t rows,
    const RequestPlace& place) {
  const bool fuses = layout_ == &program_->fused_layout();
  made_.assign(program_->program().program().outputs.size(), {});
  BatchBeginArgs begin = tables_.BeginAt(place, end_.progress());
  begin.counters = reinterpret_cast<unsigned*>(counters_.data());
  begin.counter_count = fuses ? CounterCount(*program_) : 0;
  MovedValues inputs = Moved(ValuePlace::Memory::kInputs);
  if (fuses && CountsFirstInput(rows, place)) {
    const ValueNumber first = program_->first_input();
    std::rotate(inputs.values, inputs.values + first,
                inputs.values + first + 1);
    begin.first_inputs = 1;
  }
  RETURN_IF_ERROR(
      ToStatus(LaunchGatherProgramRows(inputs, rows, begin, stream_),
               "gather a program's inputs"));
  RETURN_IF_ERROR(fuses ? EnqueueFusedSteps(environment, rows, place)
                        : EnqueueSteps(environment, rows));
  RETURN_IF_ERROR(ToStatus(
      LaunchScatterProgramRows(MovedOutputs(), rows, tables_.device(),
                               {end_.progress(), end_.stamps()}, stream_),
      "scatter a program's outputs"));
  return absl::OkStatus();
}

absl::Status ProgramLauncher::EnqueueByCopies(const Pass& pass) {
  SetSegments(pass.pieces);
  RETURN_IF_ERROR(ReserveFor(pass.rows, pass.environment));
  RETURN_IF_ERROR(Copy(pass, ValuePlace::Memory::kInputs));
  RETURN_IF_ERROR(end_.Mark());
  RETURN_IF_ERROR(EnqueueSteps(pass.environment, pass.rows));
  RETURN_IF_ERROR(end_.Mark());
  RETURN_IF_ERROR(Copy(pass, ValuePlace::Memory::kOutputs));
  return end_.Mark();
}

absl::Status ProgramLauncher::Copy(const Pass& pass,
                                   ValuePlace::Memory memory) {
  absl::Status status;
  ForEachMoved(memory, [&](ValueNumber number) {
    const int64_t row_bytes = program_->program().values()[number].row_bytes();
    const int64_t before = layout_->places[number].offset;
    for (const RowPiece& piece : pass.pieces) {
      const ProgramSegment& segment = pass.batch.segments[piece.segment];
      const int64_t host = before * segment.m + piece.number * row_bytes;
      uint8_t* const device =
          operands().AddressOf(number) + piece.row * row_bytes;
      const int64_t bytes = piece.rows * row_bytes;
      status.Update(
          memory == ValuePlace::Memory::kInputs
              ? ToStatus(cudaMemcpyAsync(device, segment.inputs + host, bytes,
                                         cudaMemcpyDefault, stream_),
                         "copy a program's inputs to the GPU")
              : ToStatus(cudaMemcpyAsync(segment.outputs + host, device, bytes,
                                         cudaMemcpyDefault, stream_),
                         "copy a program's outputs from the GPU"));
    }
  });
  return status;
}

absl::Status ProgramLauncher::EnqueueSteps(const LaunchEnvironment& environment,
                                           int64_t rows) {
  for (const ProgramStep& step : program_->steps()) {
    RETURN_IF_ERROR(step.is_gemm ? EnqueueGemmOp(step.first_op, environment)
                                 : EnqueueRowOps(step.first_op, step.ops,
                                                 environment, rows));
  }
  return absl::OkStatus();
}

absl::Status ProgramLauncher::EnqueueFusedSteps(
    const LaunchEnvironment& environment, int64_t rows,
    const RequestPlace& place) {
  const std::vector<FusedStep>& steps = program_->fused_steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const FusedStep& step = steps[i];
    if (step.is_grouped) {
      RETURN_IF_ERROR(EnqueueGroup(i, environment, rows, place));
    } else if (step.gemms.empty()) {
      RETURN_IF_ERROR(
          EnqueueRowOps(step.first_op, step.ops, environment, rows));
    } else {
      RETURN_IF_ERROR(EnqueueGemmOp(step.first_op, environment));
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramLauncher::EnqueueGroup(int64_t step,
                                           const LaunchEnvironment& environment,
                                           int64_t rows,
                                           const RequestPlace& place) {
  const FusedStep& fused = program_->fused_steps()[step];
  DecodeGroupOperands group;
  for (const GroupedGemmPart& part : fused.gemms) {
    group.gemms[group.count++] = operands().GroupedGemmOf(part, rows);
  }
  if (fused.norm != FusedStep::kNoNorm)
    group.norm = operands().RowOpOf(fused.norm);
  group.counters =
      reinterpret_cast<unsigned*>(counters_.data()) + step * kGroupCounters;
  if (step == 0 && CountsFirstInput(rows, place)) {
    group.arrived = &end_.progress()->first_rows;
  }
  if (rows >= kMinEarlyRows) CountOutputs(step, environment, group);
  return ToStatus(LaunchDecodeGroup(*environment.device, group, stream_),
                  "launch a group of decode kernels");
}

bool ProgramLauncher::CountsFirstInput(int64_t rows,
                                       const RequestPlace& place) const {
  return rows >= kMinEarlyRows && place.m > 0 &&
         program_->first_input() != kNoValue;
}

void ProgramLauncher::CountOutputs(int64_t step,
                                   const LaunchEnvironment& environment,
                                   DecodeGroupOperands& group) {
  for (const GroupedOutput& early : program_->early_outputs()) {
    if (early.step != step) continue;
    const GroupCount count =
        CounterOf(*environment.device, group, static_cast<int>(early.gemm));
    made_[early.output] = count;
    if (count.counter != nullptr) group.gemms[early.gemm].is_counted = true;
  }
}

void ProgramLauncher::PlanGemm(int64_t op,
                               const LaunchEnvironment& environment) {
  const GemmJob& job = program_->job_of(op);
  plan_.Make(segments_, job.shape,
             [&](int64_t rows) { return job.PathOf(rows, environment); });
}

absl::Status ProgramLauncher::EnqueueGemmOp(
    int64_t op, const LaunchEnvironment& environment) {
  PlanGemm(op, environment);
  const auto& values = program_->program().values();
  const ValueNumber x = program_->program().ops()[op].x;
  const ValueNumber y = program_->program().result_of(op);
  for (const PlannedLaunch& launch : plan_.launches()) {
    const int64_t row = segment_rows_[launch.segment] + launch.row;
    uint8_t* const result =
        operands().AddressOf(y) + row * values[y].row_bytes();
    uint8_t* const scratch = gemm_scratch_.data();
    const bool pads = launch.path == KernelPath::kCublas;
    const LaunchMemory memory = {
        operands().AddressOf(x) + row * values[x].row_bytes(),
        scratch + launch.rounded_offset, scratch + launch.prepared_offset,
        pads ? scratch + launch.c_offset : result};
    RETURN_IF_ERROR(EnqueueGemm(program_->job_of(op), launch, memory,
                                environment, stream_scratch_, stream_));
    if (!pads) continue;
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(result, memory.c, launch.rows * values[y].row_bytes(),
                        cudaMemcpyDeviceToDevice, stream_),
        "move the rows of a product"));
  }
  return absl::OkStatus();
}

absl::Status ProgramLauncher::EnqueueRowOps(
    int64_t first, int64_t count, const LaunchEnvironment& environment,
    int64_t rows) {
  RowOps ops;
  for (int64_t op = first; op < first + count; ++op) {
    ops.ops[ops.count++] = operands().RowOpOf(op);
  }
  ops.rows = rows;
  return ToStatus(LaunchRowOps(*environment.device, ops, stream_),
                  "launch row-wise ops");
}

template <typename Visitor>
void ProgramLauncher::ForEachMoved(ValuePlace::Memory memory,
                                   const Visitor& visit) const {
  if (memory == ValuePlace::Memory::kOutputs) {
    const auto& outputs = program_->program().program().outputs;
    std::for_each(outputs.begin(), outputs.end(), visit);
    return;
  }
  const auto& inputs = program_->program().program().inputs;
  for (size_t input = 0; input < inputs.size(); ++input) visit(input);
}

MovedValues ProgramLauncher::Moved(ValuePlace::Memory memory) const {
  MovedValues moved;
  ForEachMoved(memory, [&](ValueNumber number) {
    moved.values[moved.count++] = {
        operands().AddressOf(number),
        program_->program().values()[number].row_bytes(),
        layout_->places[number].offset};
  });
  return moved;
}

// Those with counters first.
MovedValues ProgramLauncher::MovedOutputs() const {
  MovedValues moved = Moved(ValuePlace::Memory::kOutputs);
  for (int i = 0; i < moved.count; ++i) {
    moved.values[i].made = made_[i].counter;
    moved.values[i].made_count = made_[i].blocks;
  }
  std::partition(moved.values, moved.values + moved.count,
                 [](const MovedValue& value) { return value.made != nullptr; });
  return moved;
}

}  // namespace qgemm::cuda
