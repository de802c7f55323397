// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts together. A batch is enqueued on a free launch context by the
// thread that brings it, or by the one that finishes the batch before; a
// completion thread waits for batches in the order of their starts. Waking it
// takes as long as a short batch: a short batch that runs alone and may run
// inline is waited for by its caller.

#include "kernels/cuda/cuda_backend.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/byte_budget.h"
#include "base/fifo_queue.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "kernels/cuda/launch/gemm.h"
#include "kernels/cuda/launch_context.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/plan/smem_layout.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/staging_pool.h"

namespace qgemm {
namespace cuda {
namespace {

// Batches on the device at one time: one that copies in, one that computes,
// one that copies out.
constexpr int kLaunchContexts = 3;

ByteBudgetOptions WeightsBudgetOptions(int64_t limit_bytes) {
  ByteBudgetOptions options;
  options.name = "cuda backend: memory of weights";
  options.limit_bytes = limit_bytes;
  return options;
}

absl::StatusOr<PinnedBuffer> AllocatePinned(int device, int64_t bytes) {
  RETURN_IF_ERROR(SetCurrentDevice(device));
  return PinnedBuffer::Allocate(bytes);
}

absl::Status CheckSignature(const MatmulSignature& signature) {
  if (signature.mode != ComputeMode::kA16) {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Name(signature.mode),
                     " has no kernel on cuda; the cuda backend offers A16"));
  }
  return CheckRounding(signature);
}

struct BackendParts {
  CudaOptions options;  // without zeros that stand for something else
  Device device;
  KernelPolicy policy;
  std::unique_ptr<CublasGemm> cublas;  // null if there is no cuBLASLt
  absl::Status no_cublas;              // why
  std::vector<std::unique_ptr<LaunchContext>> contexts;
};

// A batch that waits for a launch context.
struct WaitingBatch {
  GemmBatch batch;
  BatchCompletion completion;
  absl::Time enqueued;
};

// A batch on the device.
struct RunningBatch {
  WaitingBatch waiting;
  LaunchContext* context = nullptr;
  absl::Status status;  // of enqueueing it
  absl::Duration wait;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(BackendParts parts)
      : options_(std::move(parts.options)),
        device_(std::move(parts.device)),
        policy_(std::move(parts.policy)),
        no_cublas_(std::move(parts.no_cublas)),
        weights_budget_(std::make_shared<ByteBudget>(
            WeightsBudgetOptions(options_.max_weights_bytes))),
        upload_contexts_(std::make_shared<UploadContextPool>(device_.index)),
        contexts_(std::move(parts.contexts)),
        staging_(
            {options_.max_pooled_staging_bytes, options_.max_staging_bytes},
            [index = device_.index](int64_t bytes) {
              return AllocatePinned(index, bytes);
            }),
        cublas_(std::move(parts.cublas)) {
    for (const auto& context : contexts_) free_.push_back(context.get());
    completer_ = std::thread([this] { Complete(); });
  }

  // Batches that wait are started by the thread that finishes those before
  // them, so that it ends with none waiting.
  ~CudaBackend() override {
    running_.Close();
    completer_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    RETURN_IF_ERROR(Failure());
    CudaWeightsBudget budget;
    budget.device_index = device_.index;
    budget.device = device_.traits;
    budget.policy = policy_;
    budget.limits = limits();
    budget.weights = weights_budget_;
    budget.contexts = upload_contexts_;
    return std::make_unique<CudaWeightsBuilder>(std::move(budget));
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    return cuda::EstimateResidentBytes(shape, device_.traits);
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return staging_.Acquire(size_bytes);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    const auto* ours = dynamic_cast<const CudaWeights*>(&weights);
    if (ours == nullptr) {
      return absl::InvalidArgumentError(
          "weights: resident on another backend than cuda");
    }
    RETURN_IF_ERROR(CheckSignature(signature));
    if (ours->uses_cublas()) return no_cublas_;
    return absl::OkStatus();
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(Failure());
    RETURN_IF_ERROR(CheckBatch(batch, options_.max_batch_rows));
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    const bool may_wait = batch.hint == ExecutionHint::kMayRunInline;
    WaitingBatch waiting = {std::move(batch), std::move(completion),
                            absl::Now()};
    RunningBatch running;
    {
      MutexLock lock(&launch_mutex_);
      if (free_.empty()) {
        waiting_.Push(std::move(waiting));
        return absl::OkStatus();
      }
      const bool is_only = free_.size() == contexts_.size();
      // In turn, so that the scratch of each has soon grown to what batches
      // need.
      LaunchContext* const context = free_.front();
      free_.erase(free_.begin());
      running = Start(context, std::move(waiting));
      if (!may_wait || !is_only || !context->is_short()) {
        running_.Push(std::move(running));
        return absl::OkStatus();
      }
    }
    Finish(&running);
    return absl::OkStatus();
  }

  BackendLimits limits() const override {
    BackendLimits limits;
    limits.max_n = options_.max_n;
    limits.max_k = options_.max_k;
    limits.max_batch_rows = options_.max_batch_rows;
    return limits;
  }

  BackendDescription describe() const override {
    const int capability = device_.traits.compute_capability;
    return {"cuda", device_.name,
            absl::StrCat("compute capability ", capability / 10, ".",
                         capability % 10),
            device_.traits.sm_count};
  }

  BackendMemory memory() const override {
    return {weights_budget_->used_bytes(), staging_.held_bytes(),
            device_.total_bytes, staging_.leased_bytes()};
  }

 private:
  RunningBatch Start(LaunchContext* context, WaitingBatch waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(launch_mutex_);
  // Waits for the batch and runs its completion.
  void Finish(RunningBatch* running) ABSL_LOCKS_EXCLUDED(launch_mutex_);
  void Complete();
  // Gives the context to the batch that waits longest, if one does.
  void GiveBack(LaunchContext* context);

  // The error that took the GPU's context, if one did.
  absl::Status Failure();
  void SetFailure(const absl::Status& status);

  const CudaOptions options_;
  const Device device_;
  const KernelPolicy policy_;
  const absl::Status no_cublas_;
  const std::shared_ptr<ByteBudget> weights_budget_;
  const std::shared_ptr<UploadContextPool> upload_contexts_;
  const std::vector<std::unique_ptr<LaunchContext>> contexts_;
  StagingPool<PinnedBuffer> staging_;

  // Held while a batch is enqueued: one batch after the other.
  Mutex launch_mutex_;
  const std::unique_ptr<CublasGemm> cublas_ ABSL_PT_GUARDED_BY(launch_mutex_);
  std::vector<LaunchContext*> free_ ABSL_GUARDED_BY(launch_mutex_);
  FifoQueue<WaitingBatch> waiting_ ABSL_GUARDED_BY(launch_mutex_);
  FifoQueue<RunningBatch> running_;

  std::atomic<bool> has_failed_{false};
  Mutex failure_mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(failure_mutex_);

  std::thread completer_;
};

RunningBatch CudaBackend::Start(LaunchContext* context, WaitingBatch waiting) {
  RunningBatch running;
  running.context = context;
  running.wait = absl::Now() - waiting.enqueued;
  running.status = SetCurrentDevice(device_.index);
  if (running.status.ok()) {
    running.status =
        context->Enqueue(waiting.batch, {&device_, &policy_, cublas_.get()});
  }
  running.waiting = std::move(waiting);
  return running;
}

void CudaBackend::Complete() {
  const absl::Status current = SetCurrentDevice(device_.index);
  while (std::optional<RunningBatch> next = running_.Pop()) {
    next->status.Update(current);
    Finish(&*next);
  }
}

void CudaBackend::Finish(RunningBatch* running) {
  absl::Status status = running->status;
  // Waits after an error as well: what went before it may still run.
  absl::StatusOr<BatchTimings> timings = running->context->Wait();
  status.Update(timings.status());
  if (!status.ok() && running->context->IsContextLost()) SetFailure(status);
  GiveBack(running->context);
  BatchTimings reported;
  if (timings.ok()) reported = *timings;
  reported.wait = running->wait;
  WaitingBatch& done = running->waiting;
  std::move(done.completion)(std::move(status), reported,
                             std::move(done.batch));
}

void CudaBackend::GiveBack(LaunchContext* context) {
  MutexLock lock(&launch_mutex_);
  std::optional<WaitingBatch> next = waiting_.TryPop();
  if (next.has_value()) {
    running_.Push(Start(context, *std::move(next)));
  } else {
    free_.push_back(context);
  }
}

absl::Status CudaBackend::Failure() {
  if (!has_failed_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(&failure_mutex_);
  return failure_;
}

void CudaBackend::SetFailure(const absl::Status& status) {
  MutexLock lock(&failure_mutex_);
  if (has_failed_.load(std::memory_order_relaxed)) return;
  failure_ = absl::InternalError(
      absl::StrCat("cuda backend: GPU ", device_.index, " (", device_.name,
                   ") takes no more batches after: ", status.message()));
  LOG(ERROR) << failure_.message();
  has_failed_.store(true, std::memory_order_release);
}

absl::Status CheckCudaOptions(const CudaOptions& options) {
  return CheckOptions(
      "cuda backend",
      {{"device", options.device},
       {"max_weights_bytes", options.max_weights_bytes},
       {"max_staging_bytes", options.max_staging_bytes},
       {"max_pooled_staging_bytes", options.max_pooled_staging_bytes},
       {"max_n", options.max_n},
       {"max_k", options.max_k},
       {"max_batch_rows", options.max_batch_rows}});
}

absl::Status CheckSharedMemory(const DeviceTraits& traits) {
  if (traits.shared_bytes_per_block >= kMinBlockBytes) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU gives a block ", traits.shared_bytes_per_block,
      " bytes of shared memory; the cuda backend needs ", kMinBlockBytes));
}

// The device with its kernels ready.
absl::StatusOr<Device> PrepareDevice(int index) {
  ASSIGN_OR_RETURN(Device device, OpenDevice(index));
  RETURN_IF_ERROR(CheckSharedMemory(device.traits));
  RETURN_IF_ERROR(ToStatus(PrepareDecodeGemm(device), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PreparePrefillGemm(device), "prepare kernels"));
  return device;
}

// Thresholds of another GPU may cost time; they never cost correctness.
void WarnOfForeignTuning(const Tuning& tuning, const Device& device) {
  if (tuning.device.empty() || tuning.device == device.name) return;
  LOG(WARNING) << "cuda backend: the tuning was measured on \"" << tuning.device
               << "\" and is used on \"" << device.name << "\"";
}

// Opens cuBLASLt, or goes on without it.
absl::Status OpenCublas(BackendParts& parts) {
  absl::StatusOr<std::unique_ptr<CublasGemm>> cublas =
      CublasGemm::Create(parts.device.traits);
  if (cublas.ok()) {
    parts.cublas = *std::move(cublas);
    return absl::OkStatus();
  }
  if (!absl::IsFailedPrecondition(cublas.status()) ||
      parts.policy.forced == KernelPath::kPrefill ||
      parts.policy.forced == KernelPath::kCublas) {
    return cublas.status();
  }
  parts.no_cublas = cublas.status();
  parts.policy.has_cublas = false;
  return absl::OkStatus();
}

void FillIn(BackendParts& parts) {
  CudaOptions& options = parts.options;
  if (options.max_weights_bytes == 0) {
    options.max_weights_bytes = parts.device.total_bytes;
  }
  if (options.max_staging_bytes == 0) {
    options.max_staging_bytes = HostMemoryBytes();
  }
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaOptions& options) {
  RETURN_IF_ERROR(cuda::CheckCudaOptions(options));
  cuda::BackendParts parts;
  parts.options = options;
  parts.policy.forced = options.kernel;
  if (!options.tuning_file.empty()) {
    ASSIGN_OR_RETURN(parts.policy.tuning,
                     cuda::ReadTuningFile(options.tuning_file));
  }
  ASSIGN_OR_RETURN(parts.device, cuda::PrepareDevice(options.device));
  cuda::WarnOfForeignTuning(parts.policy.tuning, parts.device);
  RETURN_IF_ERROR(cuda::OpenCublas(parts));
  for (int i = 0; i < cuda::kLaunchContexts; ++i) {
    ASSIGN_OR_RETURN(auto context, cuda::LaunchContext::Create());
    parts.contexts.push_back(std::move(context));
  }
  cuda::FillIn(parts);
  return std::make_unique<cuda::CudaBackend>(std::move(parts));
}

}  // namespace qgemm
