// SPDX-License-Identifier: Apache-2.0
//
// Group by group of launches: everything in, all kernels, everything out.

#include "kernels/cuda/launch_context.h"

#include "base/status_macros.h"
#include "kernels/cuda/launch/host_rows.h"
#include "kernels/cuda/plan/prefill_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

namespace {

HostRun RunOf(const uint8_t* rows, const Slice& slice, int64_t row_bytes,
              int64_t offset) {
  HostRun run;
  // Rows of results are written, those of activations only read.
  run.host = const_cast<uint8_t*>(rows) + slice.row * row_bytes;
  run.offset = offset + slice.row_in_launch * row_bytes;
  run.bytes = slice.rows * row_bytes;
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchContext>> LaunchContext::Create(
    cudaStream_t program_stream) {
  ASSIGN_OR_RETURN(Stream stream, Stream::Create());
  ASSIGN_OR_RETURN(BatchEnd end, BatchEnd::Create(stream.get()));
  return std::unique_ptr<LaunchContext>(
      new LaunchContext(std::move(stream), std::move(end), program_stream));
}

absl::Status LaunchContext::Enqueue(const GemmBatch& batch,
                                    const LaunchEnvironment& environment) {
  end_.Begin();
  if (batch.signature.mode != ComputeMode::kA32) {
    RETURN_IF_ERROR(ReserveHanded(environment));
  }
  const Job job = {
      batch, environment,
      MakeGemmJob(std::static_pointer_cast<const CudaWeights>(batch.weights),
                  batch.signature, environment)};
  plan_.Make(batch.segments, job.gemm.shape,
             [&](int64_t rows) { return job.gemm.PathOf(rows, environment); });
  if (ChooseHostTransfer(plan_, job.gemm.shape, batch.segments.size()) ==
      HostTransfer::kKernels) {
    const PlannedLaunch& launch = plan_.launches().front();
    ASSIGN_OR_RETURN(const bool enqueued,
                     recorded_.Enqueue(batch, job.gemm, launch, environment));
    if (enqueued) return absl::OkStatus();
    RETURN_IF_ERROR(Reserve(plan_.scratch_bytes(), scratch_));
    return EnqueueByKernels(job, launch);
  }
  RETURN_IF_ERROR(Reserve(plan_.scratch_bytes(), scratch_));
  RETURN_IF_ERROR(end_.Mark());
  for (const LaunchGroup& group : plan_.groups()) {
    RETURN_IF_ERROR(EnqueueGroup(job, group));
  }
  return absl::OkStatus();
}

absl::Status LaunchContext::Enqueue(const ProgramBatch& batch,
                                    const LaunchEnvironment& environment) {
  end_.Begin();
  RETURN_IF_ERROR(ReserveHanded(environment));
  return programs_.Enqueue(batch, environment);
}

absl::Status LaunchContext::ReserveHanded(
    const LaunchEnvironment& environment) {
  if (!RunsPrefill(environment.device->traits)) return absl::OkStatus();
  return stream_scratch_.ReserveHanded(stream_.get());
}

absl::Status LaunchContext::EnqueueByKernels(const Job& job,
                                             const PlannedLaunch& launch) {
  const BatchShape& shape = job.gemm.shape;
  HostRuns in;
  HostRuns out;
  RETURN_IF_ERROR(ForEachSlice(
      job.batch.segments, shape.max_shared_rows, launch,
      [&](const Slice& slice) {
        const RowSegment& segment = job.batch.segments[slice.segment];
        in.runs[in.count++] =
            RunOf(segment.a, slice, shape.a_row_bytes, launch.a_offset);
        out.runs[out.count++] =
            RunOf(segment.c, slice, shape.c_row_bytes, launch.c_offset);
        return absl::OkStatus();
      }));
  RETURN_IF_ERROR(ToStatus(
      LaunchGatherRows(in, scratch_.data(), end_.progress(), stream_.get()),
      "gather activations"));
  RETURN_IF_ERROR(Multiply(job, launch));
  ScatterRowsArgs args;
  args.device_buffer = scratch_.data();
  args.progress = end_.progress();
  args.stamps = end_.stamps();
  RETURN_IF_ERROR(
      ToStatus(LaunchScatterRows(out, args, stream_.get()), "scatter results"));
  end_.ExpectStamps();
  return absl::OkStatus();
}

absl::Status LaunchContext::EnqueueGroup(const Job& job,
                                         const LaunchGroup& group) {
  const auto launches = plan_.launches().subspan(group.first, group.count);
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(CopyIn(job, launch));
  }
  RETURN_IF_ERROR(end_.Mark());
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(Multiply(job, launch));
  }
  RETURN_IF_ERROR(end_.Mark());
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(CopyOut(job, launch));
  }
  return end_.Mark();
}

absl::Status LaunchContext::CopyIn(const Job& job,
                                   const PlannedLaunch& launch) {
  const int64_t row_bytes = job.gemm.shape.a_row_bytes;
  return ForEachSlice(
      job.batch.segments, job.gemm.shape.max_shared_rows, launch,
      [&](const Slice& slice) {
        const uint8_t* from = job.batch.segments[slice.segment].a;
        return ToStatus(
            cudaMemcpyAsync(
                At(launch.a_offset + slice.row_in_launch * row_bytes),
                from + slice.row * row_bytes, slice.rows * row_bytes,
                cudaMemcpyDefault, stream_.get()),
            "copy activations to the GPU");
      });
}

absl::Status LaunchContext::CopyOut(const Job& job,
                                    const PlannedLaunch& launch) {
  const int64_t row_bytes = job.gemm.shape.c_row_bytes;
  return ForEachSlice(
      job.batch.segments, job.gemm.shape.max_shared_rows, launch,
      [&](const Slice& slice) {
        uint8_t* to = job.batch.segments[slice.segment].c;
        return ToStatus(
            cudaMemcpyAsync(
                to + slice.row * row_bytes,
                At(launch.c_offset + slice.row_in_launch * row_bytes),
                slice.rows * row_bytes, cudaMemcpyDefault, stream_.get()),
            "copy results from the GPU");
      });
}

absl::Status LaunchContext::Multiply(const Job& job,
                                     const PlannedLaunch& launch) {
  const LaunchMemory memory = {At(launch.a_offset), At(launch.rounded_offset),
                               At(launch.prepared_offset), At(launch.c_offset)};
  return EnqueueGemm(job.gemm, launch, memory, job.environment, stream_scratch_,
                     stream_.get());
}

bool LaunchContext::IsContextLost() const {
  return IsSticky(cudaStreamQuery(stream_.get()));
}

}  // namespace qgemm::cuda
