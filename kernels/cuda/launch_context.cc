// SPDX-License-Identifier: Apache-2.0
//
// Group by group of launches: everything in, all kernels, everything out.

#include "kernels/cuda/launch_context.h"

#include <chrono>
#include <thread>

#include "base/checked_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch/rows.h"
#include "kernels/cuda/plan/n_chunk_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {

namespace {

// Looks at the stamps between two looks at the stream: some 20 us.
constexpr int kLooks = 1024;
// The same for a batch without stamps, as a pause of some 2 us: it is the
// stream that says when it has ended.
constexpr int kLooksWithoutStamps = 128;

HostRun RunOf(const uint8_t* rows, const Slice& slice, int64_t row_bytes,
              int64_t offset) {
  HostRun run;
  // Rows of results are written, those of activations only read.
  run.host = const_cast<uint8_t*>(rows) + slice.row * row_bytes;
  run.offset = offset + slice.row_in_launch * row_bytes;
  run.bytes = slice.rows * row_bytes;
  return run;
}

absl::Duration Nanos(uint64_t begin, uint64_t end) {
  return end > begin ? absl::Nanoseconds(end - begin) : absl::ZeroDuration();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchContext>> LaunchContext::Create() {
  ASSIGN_OR_RETURN(Stream stream, Stream::Create());
  ASSIGN_OR_RETURN(DeviceBuffer progress,
                   DeviceBuffer::Allocate(sizeof(BatchProgress)));
  ASSIGN_OR_RETURN(PinnedBuffer stamps,
                   PinnedBuffer::Allocate(sizeof(BatchStamps)));
  new (stamps.data()) BatchStamps();
  RETURN_IF_ERROR(ToStatus(
      cudaMemsetAsync(progress.data(), 0, sizeof(BatchProgress), stream.get()),
      "zero the progress of batches"));
  RETURN_IF_ERROR(stream.Synchronize());
  return std::unique_ptr<LaunchContext>(new LaunchContext(
      std::move(stream), std::move(progress), std::move(stamps)));
}

LaunchContext::Job LaunchContext::JobOf(const GemmBatch& batch,
                                        const LaunchEnvironment& environment) {
  const MatmulSignature& signature = batch.signature;
  auto weights = std::static_pointer_cast<const CudaWeights>(batch.weights);
  const bool rounds = signature.a_type == FloatType::kFloat32;
  const FloatType rounded = rounds ? signature.rounding : signature.a_type;
  const FloatType operand = OperandType(*weights, rounded);
  const int64_t k = weights->k();
  BatchShape shape;
  shape.a_row_bytes = k * SizeOf(signature.a_type);
  if (rounds && operand != rounded) {
    shape.rounded_row_bytes = k * SizeOf(rounded);
  }
  if (weights->shape().has_permutation || operand != signature.a_type ||
      OperandStride(k) != k) {
    shape.prepared_row_bytes = OperandStride(k) * SizeOf(operand);
  }
  shape.c_row_bytes = weights->n() * SizeOf(signature.c_type);
  return {batch, environment, std::move(weights), rounded, operand, shape};
}

// The one place that chooses kernels: launches carry their path from here on.
void LaunchContext::MakePlan(Job& job) {
  const LayerShape layer = job.weights->layer_shape(NeedsFp32Sums(
      *job.weights, job.operand_type, job.batch.signature.c_type));
  const DeviceTraits& device = job.environment.device->traits;
  const KernelPolicy& policy = *job.environment.policy;
  job.shape.max_shared_rows = MaxSharedRows(layer, policy);
  job.shape.shared_path = ChooseKernelPath(layer, /*m=*/1, device, policy).path;
  plan_.Make(job.batch.segments, job.shape, [&](int64_t rows) {
    return ChooseManyRowsPath(layer, rows, device, policy).path;
  });
}

absl::Status LaunchContext::Enqueue(const GemmBatch& batch,
                                    const LaunchEnvironment& environment) {
  marked_ = 0;
  by_kernels_ = false;
  Job job = JobOf(batch, environment);
  MakePlan(job);
  if (scratch_.size_bytes() < plan_.scratch_bytes()) {
    scratch_ = DeviceBuffer();
    ASSIGN_OR_RETURN(scratch_, DeviceBuffer::Allocate(plan_.scratch_bytes()));
  }
  if (ChooseHostTransfer(plan_, job.shape, batch.segments.size()) ==
      HostTransfer::kKernels) {
    return EnqueueByKernels(job, plan_.launches().front());
  }
  RETURN_IF_ERROR(Mark());
  for (const LaunchGroup& group : plan_.groups()) {
    RETURN_IF_ERROR(EnqueueGroup(job, group));
  }
  return absl::OkStatus();
}

absl::Status LaunchContext::EnqueueByKernels(const Job& job,
                                             const PlannedLaunch& launch) {
  const BatchShape& shape = job.shape;
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
  auto* const progress = reinterpret_cast<BatchProgress*>(progress_.data());
  RETURN_IF_ERROR(
      ToStatus(LaunchGatherRows(in, scratch_.data(), progress, stream_.get()),
               "gather activations"));
  RETURN_IF_ERROR(Multiply(job, launch));
  ScatterRowsArgs args;
  args.device_buffer = scratch_.data();
  args.progress = progress;
  args.stamps = reinterpret_cast<BatchStamps*>(stamps_.data());
  args.sequence = ++sequence_;
  RETURN_IF_ERROR(
      ToStatus(LaunchScatterRows(out, args, stream_.get()), "scatter results"));
  by_kernels_ = true;
  return absl::OkStatus();
}

absl::Status LaunchContext::EnqueueGroup(const Job& job,
                                         const LaunchGroup& group) {
  const auto launches = plan_.launches().subspan(group.first, group.count);
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(CopyIn(job, launch));
  }
  RETURN_IF_ERROR(Mark());
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(Multiply(job, launch));
  }
  RETURN_IF_ERROR(Mark());
  for (const PlannedLaunch& launch : launches) {
    RETURN_IF_ERROR(CopyOut(job, launch));
  }
  return Mark();
}

absl::Status LaunchContext::CopyIn(const Job& job,
                                   const PlannedLaunch& launch) {
  const int64_t row_bytes = job.shape.a_row_bytes;
  return ForEachSlice(
      job.batch.segments, job.shape.max_shared_rows, launch,
      [&](const Slice& slice) {
        const uint8_t* from = job.batch.segments[slice.segment].a;
        return ToStatus(
            cudaMemcpyAsync(
                At(launch.a_offset + slice.row_in_launch * row_bytes),
                from + slice.row * row_bytes, slice.rows * row_bytes,
                cudaMemcpyHostToDevice, stream_.get()),
            "copy activations to the GPU");
      });
}

absl::Status LaunchContext::CopyOut(const Job& job,
                                    const PlannedLaunch& launch) {
  const int64_t row_bytes = job.shape.c_row_bytes;
  return ForEachSlice(
      job.batch.segments, job.shape.max_shared_rows, launch,
      [&](const Slice& slice) {
        uint8_t* to = job.batch.segments[slice.segment].c;
        return ToStatus(
            cudaMemcpyAsync(
                to + slice.row * row_bytes,
                At(launch.c_offset + slice.row_in_launch * row_bytes),
                slice.rows * row_bytes, cudaMemcpyDeviceToHost, stream_.get()),
            "copy results from the GPU");
      });
}

absl::Status LaunchContext::Multiply(const Job& job,
                                     const PlannedLaunch& launch) {
  if (job.shape.prepared_row_bytes > 0) RETURN_IF_ERROR(Prepare(job, launch));
  return MultiplyPrepared(job, launch);
}

absl::Status LaunchContext::Prepare(const Job& job,
                                    const PlannedLaunch& launch) {
  PrepareRowsArgs args;
  args.a = At(launch.a_offset);
  args.a_type = job.batch.signature.a_type;
  args.m = launch.rows;
  args.k = job.weights->k();
  // Only dense layers are read in another type than rounded to: no
  // permutation, and rounding to fp16 shows in bf16 too.
  if (job.shape.rounded_row_bytes > 0) {
    // One long row: the second pass reads rows without gaps.
    args.m = 1;
    args.k = launch.rows * job.weights->k();
    args.out_type = job.rounded_type;
    args.out = At(launch.rounded_offset);
    args.ldo = RoundUp(args.k, 8);
    RETURN_IF_ERROR(
        ToStatus(LaunchPrepareRows(args, stream_.get()), "round activations"));
    args.a = args.out;
    args.a_type = job.rounded_type;
    args.m = launch.rows;
    args.k = job.weights->k();
  }
  if (job.weights->shape().has_permutation) {
    args.permutation = job.weights->tiled().permutation();
  }
  args.out_type = job.operand_type;
  args.out = At(launch.prepared_offset);
  args.ldo = OperandStride(args.k);
  return ToStatus(LaunchPrepareRows(args, stream_.get()),
                  "prepare activations");
}

absl::Status LaunchContext::MultiplyPrepared(const Job& job,
                                             const PlannedLaunch& launch) {
  const uint8_t* a =
      At(job.shape.prepared_row_bytes > 0 ? launch.prepared_offset
                                          : launch.a_offset);
  if (launch.path == KernelPath::kCublas) {
    return MultiplyByCublas(job, launch, a);
  }
  GemmOperands operands;
  operands.weights = job.weights->tiled();
  operands.a = a;
  operands.lda = OperandStride(job.weights->k());
  operands.a_type = job.operand_type;
  operands.c = At(launch.c_offset);
  operands.c_type = job.batch.signature.c_type;
  operands.m = launch.rows;
  const Device& device = *job.environment.device;
  if (launch.path == KernelPath::kDecode) {
    return ToStatus(LaunchDecodeGemm(device, operands, stream_.get()),
                    "launch the decode kernel");
  }
  return ToStatus(LaunchPrefillGemm(device, operands, stream_.get()),
                  "launch the prefill kernel");
}

absl::Status LaunchContext::MultiplyByCublas(const Job& job,
                                             const PlannedLaunch& launch,
                                             const uint8_t* a) {
  CublasGemmCall call;
  call.weights = job.weights;
  call.a = a;
  call.operand_type = job.operand_type;
  call.c = At(launch.c_offset);
  call.c_type = job.batch.signature.c_type;
  call.m = launch.rows;
  call.sums = launch.shared ? LtSums::kUnsplit : LtSums::kSplit;
  call.scratch = &cublas_scratch_;
  call.stream = stream_.get();
  return job.environment.cublas->Enqueue(call);
}

absl::Status LaunchContext::Mark() {
  if (marked_ == marks_.size()) {
    ASSIGN_OR_RETURN(Event mark, Event::Create());
    marks_.push_back(std::move(mark));
  }
  return marks_[marked_++].Record(stream_.get());
}

bool LaunchContext::HasStamps() const {
  // Written by the GPU: no std::atomic, but read like one.
  const uint64_t* const written =
      &reinterpret_cast<const BatchStamps*>(stamps_.data())->sequence;
  return __atomic_load_n(written, __ATOMIC_ACQUIRE) == sequence_ && by_kernels_;
}

// The stamps come before the stream says that it is done.
WaitEnd LaunchContext::SpinUntilDone(absl::Duration limit,
                                     const std::atomic<bool>& given_up) const {
  const auto start = std::chrono::steady_clock::now();
  const int looks = by_kernels_ ? kLooks : kLooksWithoutStamps;
  for (;;) {
    for (int i = 0; i < looks; ++i) {
      if (HasStamps()) return WaitEnd::kDone;
    }
    if (cudaStreamQuery(stream_.get()) != cudaErrorNotReady) {
      return WaitEnd::kDone;
    }
    if (given_up.load(std::memory_order_relaxed)) return WaitEnd::kGivenUp;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (absl::FromChrono(waited) > limit) return WaitEnd::kTimedOut;
    std::this_thread::yield();
  }
}

absl::Status LaunchContext::WaitForStamps() {
  if (HasStamps()) return absl::OkStatus();
  RETURN_IF_ERROR(stream_.Synchronize());
  if (HasStamps()) return absl::OkStatus();
  return absl::InternalError("cuda backend: a batch ended without stamps");
}

absl::StatusOr<BatchTimings> LaunchContext::Wait() {
  BatchTimings timings;
  if (by_kernels_) {
    RETURN_IF_ERROR(WaitForStamps());
    const auto& stamps = *reinterpret_cast<const BatchStamps*>(stamps_.data());
    timings.host_to_device = Nanos(stamps.gather_begin, stamps.gather_end);
    timings.kernel = Nanos(stamps.gather_end, stamps.scatter_begin);
    timings.device_to_host = Nanos(stamps.scatter_begin, stamps.scatter_end);
    return timings;
  }
  RETURN_IF_ERROR(stream_.Synchronize());
  for (size_t i = 0; i + 3 < marked_; i += 3) {
    ASSIGN_OR_RETURN(const absl::Duration in,
                     Elapsed(marks_[i], marks_[i + 1]));
    ASSIGN_OR_RETURN(const absl::Duration kernel,
                     Elapsed(marks_[i + 1], marks_[i + 2]));
    ASSIGN_OR_RETURN(const absl::Duration out,
                     Elapsed(marks_[i + 2], marks_[i + 3]));
    timings.host_to_device += in;
    timings.kernel += kernel;
    timings.device_to_host += out;
  }
  return timings;
}

bool LaunchContext::IsContextLost() const {
  return IsSticky(cudaStreamQuery(stream_.get()));
}

}  // namespace qgemm::cuda
