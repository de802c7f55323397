// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cuda_program.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/decode_group.h"
#include "kernels/cuda/launch/program_rows.h"
#include "kernels/cuda/launch/row_ops.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kConstantAlignment = 64;
// Device memory for the values of a pass, unless one row needs more.
constexpr int64_t kPassBytes = int64_t{256} << 20;

uint64_t NextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool KernelsMove(const CheckedProgram& program) {
  int64_t inputs = 0;
  int64_t outputs = 0;
  for (const ProgramValue& value : program.values()) {
    const bool is_input = value.origin == ProgramValue::Origin::kInput;
    const bool is_output = value.output >= 0;
    if (!is_input && !is_output) continue;
    if (value.row_bytes() % kMovedValueAlignment != 0) return false;
    ++(is_input ? inputs : outputs);
  }
  return inputs <= kMaxMovedValues && outputs <= kMaxMovedValues;
}

// A GEMM whose operand and result stand as the program has them shares
// launches of the decode kernel.
FusionFacts FactsOf(const GemmJob& job) {
  FusionFacts facts;
  const BatchShape& shape = job.shape;
  if (shape.shared_path != KernelPath::kDecode || shape.rounded_row_bytes > 0 ||
      shape.prepared_row_bytes > 0 || job.weights->n() % kGroupColumns != 0) {
    return facts;
  }
  const TileLayout& layout = job.weights->tiled().layout;
  facts.kernel = GroupKernelOf(layout, job.operand_type);
  facts.computes_norms = ComputesNorms(layout);
  return facts;
}

// True if blocks that multiply one can multiply the other as well.
bool HaveOneShape(const CudaWeights& a, const CudaWeights& b) {
  return a.n() == b.n() && a.k() == b.k() &&
         a.tiled().layout.tile_config == b.tiled().layout.tile_config &&
         a.codebook() == b.codebook();
}

std::vector<FusionFacts> FactsOfOps(absl::Span<const ProgramStep> steps,
                                    absl::Span<const GemmJob> jobs,
                                    const Device& device) {
  std::vector<FusionFacts> facts(jobs.size());
  if (!HasDecodeGroups(device)) return facts;
  for (const ProgramStep& step : steps) {
    if (!step.is_gemm) continue;
    const int64_t op = step.first_op;
    facts[op] = FactsOf(jobs[op]);
    if (facts[op].kernel == FusionFacts::kNoKernel) continue;
    facts[op].pair_class = op;
    for (int64_t other = 0; other < op; ++other) {
      if (facts[other].pair_class == other &&
          HaveOneShape(*jobs[other].weights, *jobs[op].weights)) {
        facts[op].pair_class = other;
      }
    }
  }
  return facts;
}

// The step of each op.
std::vector<int64_t> StepOfEachOp(absl::Span<const FusedStep> steps) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < steps.size(); ++i) {
    result.insert(result.end(), steps[i].ops, static_cast<int64_t>(i));
  }
  return result;
}

int64_t MaxRecordedRows(absl::Span<const ProgramStep> steps,
                        absl::Span<const GemmJob> jobs) {
  int64_t rows = kMaxRecordedRows;
  for (const ProgramStep& step : steps) {
    if (!step.is_gemm) continue;
    const BatchShape& shape = jobs[step.first_op].shape;
    if (shape.shared_path == KernelPath::kCublas) return 0;
    rows = std::min(rows, shape.max_shared_rows);
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaProgram>> CudaProgram::Create(
    std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights,
    const LaunchEnvironment& environment) {
  RETURN_IF_ERROR(CheckTopK("cuda", *program, kMaxTopK));
  std::shared_ptr<CudaProgram> made(
      new CudaProgram(std::move(program), std::move(weights), environment));
  RETURN_IF_ERROR(made->UploadConstants());
  return made;
}

CudaProgram::CudaProgram(std::shared_ptr<const CheckedProgram> program,
                         WeightsOfProgram weights,
                         const LaunchEnvironment& environment)
    : CompiledProgram(std::move(program), std::move(weights)),
      steps_(CutIntoSteps(this->program().ops(), kMaxRowOps)),
      // Blocks of a launch are at any of its ops.
      layout_(LayOutValues(this->program(), StepOfEachOp(steps_))),
      serial_(NextSerial()),
      jobs_(this->program().ops().size()) {
  MakeJobs(environment);
  fused_steps_ =
      FuseSteps(this->program(), FactsOfOps(steps_, jobs_, *environment.device),
                kMaxRowOps);
  first_input_ = FirstInput(this->program(), fused_steps_);
  early_outputs_ = EarlyOutputs(this->program(), fused_steps_);
  fused_layout_ = LayOutValues(this->program(), StepOfEachOp(fused_steps_));
  is_moved_by_kernels_ = KernelsMove(this->program());
  if (is_moved_by_kernels_) max_recorded_rows_ = MaxRecordedRows(steps_, jobs_);
}

void CudaProgram::MakeJobs(const LaunchEnvironment& environment) {
  for (const ProgramStep& step : steps_) {
    if (!step.is_gemm) continue;
    const int64_t op = step.first_op;
    jobs_[op] = MakeGemmJob(std::static_pointer_cast<const CudaWeights>(
                                weights()[program().weights_of(op)]),
                            program().signature_of(op), environment);
    // Rows stand where the program's values do; only cuBLASLt, which writes
    // padded rows, has a buffer of its own for them.
    BatchShape& shape = jobs_[op].shape;
    shape.max_own_rows = MaxOwnLaunchRows(shape);
    read_ahead_bytes_ =
        std::max(read_ahead_bytes_, kPaddedRows * shape.a_row_bytes);
    shape.a_row_bytes = 0;
    if (environment.cublas == nullptr ||
        shape.shared_path == KernelPath::kW4A8 ||
        shape.shared_path == KernelPath::kA32) {
      shape.c_row_bytes = 0;
    }
  }
}

absl::Status CudaProgram::UploadConstants() {
  const auto& constants = program().program().constants;
  int64_t bytes = 0;
  for (const ProgramConstant& constant : constants) {
    constant_offsets_.push_back(bytes);
    bytes += RoundUp(static_cast<int64_t>(constant.bytes.size()),
                     kConstantAlignment);
  }
  ASSIGN_OR_RETURN(constants_, DeviceBuffer::Allocate(bytes));
  ASSIGN_OR_RETURN(const Stream stream, Stream::Create());
  for (size_t i = 0; i < constants.size(); ++i) {
    RETURN_IF_ERROR(ToStatus(
        cudaMemcpyAsync(constants_.data() + constant_offsets_[i],
                        constants[i].bytes.data(), constants[i].bytes.size(),
                        cudaMemcpyHostToDevice, stream.get()),
        "copy a program's constant to the GPU"));
  }
  return stream.Synchronize();
}

// Whole tiles of cuBLASLt and the prefill kernel where they fit.
int64_t CudaProgram::pass_rows() const {
  const int64_t row_bytes = DeviceRowBytes(program(), layout_);
  const int64_t fitting = kPassBytes / std::max<int64_t>(1, row_bytes);
  if (fitting >= kPaddedRows) return fitting / kPaddedRows * kPaddedRows;
  return std::max<int64_t>(1, fitting);
}

}  // namespace qgemm::cuda
