// SPDX-License-Identifier: Apache-2.0
//
// A program as the CUDA backend runs it: its constants on the device, its ops
// cut into steps, and the kernels of its GEMMs. Execution is in
// program_launcher.h.

#ifndef QGEMM_KERNELS_CUDA_CUDA_PROGRAM_H_
#define QGEMM_KERNELS_CUDA_CUDA_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm_launcher.h"
#include "kernels/cuda/plan/program_fusion.h"
#include "kernels/cuda/plan/program_plan.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/programs/program_runner.h"
#include "kernels/programs/value_layout.h"

namespace qgemm::cuda {

class CudaProgram final : public CompiledProgram {
 public:
  // On the calling thread's current device. The weights are CudaWeights.
  // Errors: RESOURCE_EXHAUSTED; UNIMPLEMENTED for a k of TOP_K that no program
  // has which was checked with the default limits.
  static absl::StatusOr<std::shared_ptr<const CudaProgram>> Create(
      std::shared_ptr<const CheckedProgram> program, WeightsOfProgram weights,
      const LaunchEnvironment& environment);

  int64_t resident_bytes() const override { return constants_.size_bytes(); }

  // Its ops one by one, as any batch can run them, and the places of values.
  const std::vector<ProgramStep>& steps() const { return steps_; }
  const ValueLayout& layout() const { return layout_; }
  // Its ops as recorded batches run them, and the places of values there.
  const std::vector<FusedStep>& fused_steps() const { return fused_steps_; }
  const ValueLayout& fused_layout() const { return fused_layout_; }
  const std::vector<GroupedOutput>& early_outputs() const {
    return early_outputs_;
  }
  ValueNumber first_input() const { return first_input_; }
  // Only of a GEMM.
  const GemmJob& job_of(int64_t op) const { return jobs_[op]; }
  // A constant's row on the device.
  uint8_t* constant(ValueNumber number) const {
    return constants_.data() + constant_offsets_[layout_.places[number].offset];
  }
  // Bytes behind the values' memory that cuBLASLt may read, where a launch has
  // fewer rows than it pads to.
  int64_t read_ahead_bytes() const { return read_ahead_bytes_; }
  // A number that no other program of the process has.
  uint64_t serial() const { return serial_; }

  // Rows whose values are in device memory at one time, at most; 1 or more.
  int64_t pass_rows() const;
  // True if kernels can move its rows (program_rows.h).
  bool is_moved_by_kernels() const { return is_moved_by_kernels_; }
  // Rows of the longest request of a batch that may be recorded and launched
  // again: all its products share launches, none of cuBLASLt. 0: of none.
  int64_t max_recorded_rows() const { return max_recorded_rows_; }

 private:
  CudaProgram(std::shared_ptr<const CheckedProgram> program,
              WeightsOfProgram weights, const LaunchEnvironment& environment);

  void MakeJobs(const LaunchEnvironment& environment);
  absl::Status UploadConstants();

  const std::vector<ProgramStep> steps_;
  const ValueLayout layout_;
  const uint64_t serial_;
  std::vector<GemmJob> jobs_;  // by op
  std::vector<FusedStep> fused_steps_;
  ValueLayout fused_layout_;
  std::vector<GroupedOutput> early_outputs_;
  ValueNumber first_input_ = kNoValue;
  int64_t read_ahead_bytes_ = 0;
  bool is_moved_by_kernels_ = false;
  int64_t max_recorded_rows_ = 0;
  DeviceBuffer constants_;
  std::vector<int64_t> constant_offsets_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_CUDA_PROGRAM_H_
