// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts together. A batch is enqueued on a free executor by the thread
// that brings it, or by the one that finishes the batch before; a completion
// thread waits for batches in the order of their starts. To wake it takes as
// long as a short batch: where only one runs and its caller may wait, it does.

#include "kernels/cuda/cuda_backend.h"

#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/cuda/batch_executor.h"
#include "kernels/cuda/cuda_staging_pool.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "kernels/cuda/large_gemm.h"
#include "kernels/cuda/launch/tiled_weights.h"
#include "kernels/cuda/launch/wqa16_gemm.h"
#include "kernels/cuda/launch/wqa16_wide.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device_info.h"
#include "kernels/cuda/tuning/batch_plan.h"
#include "kernels/cuda/tuning/shared_plan.h"
#include "kernels/cuda/upload_lanes.h"
#include "kernels/cuda/waiting_queue.h"

namespace qgemm {
namespace cuda {
namespace {

// Batches on the device at one time: one that copies in, one that computes,
// one that copies out.
constexpr int kExecutors = 3;

absl::Status CheckSegments(const GemmBatch& batch, int64_t max_rows) {
  int64_t rows = 0;
  for (const RowSegment& segment : batch.segments) {
    if (segment.rows < 1 || segment.rows > max_rows - rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: a segment of ", segment.rows, " rows after ", rows,
          " others; legal: 1 or more, ", max_rows, " in all"));
    }
    if (segment.a == nullptr || segment.c == nullptr) {
      return absl::InvalidArgumentError("batch: a segment without operands");
    }
    rows += segment.rows;
  }
  if (rows > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("batch: no rows");
}

absl::Status CheckSignature(const MatmulSignature& signature) {
  if (signature.mode != ComputeMode::kA16) {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Name(signature.mode),
                     " has no kernel on cuda; the cuda backend offers A16"));
  }
  if (signature.a_type == FloatType::kFloat32 &&
      signature.rounding == FloatType::kFloat32) {
    return absl::InvalidArgumentError(
        "signature: rounding = fp32 in mode A16; legal: fp16, bf16");
  }
  return absl::OkStatus();
}

// The GPU, as far as a backend tells of it.
struct Device {
  int index = 0;
  DeviceTraits traits;
  std::string name;
  int64_t total_bytes = 0;
};

// What a backend is made of.
struct BackendParts {
  CudaBackendOptions options;  // without zeros that stand for something else
  Device device;
  ExecutionPolicy policy;
  std::unique_ptr<LargeGemm> large;  // null if there is no cuBLASLt
  absl::Status no_large;             // why
  std::vector<std::unique_ptr<BatchExecutor>> executors;
};

// A batch that waits for an executor.
struct WaitingBatch {
  GemmBatch batch;
  BatchCompletion completion;
  absl::Time enqueued;
};

// A batch on the device.
struct RunningBatch {
  WaitingBatch waiting;
  BatchExecutor* executor = nullptr;
  absl::Status status;  // of enqueueing it
  absl::Duration wait;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(BackendParts parts)
      : options_(std::move(parts.options)),
        device_(std::move(parts.device)),
        policy_(std::move(parts.policy)),
        no_large_(std::move(parts.no_large)),
        weights_bytes_(std::make_shared<std::atomic<int64_t>>(0)),
        upload_lanes_(std::make_shared<UploadLanePool>(device_.index)),
        executors_(std::move(parts.executors)),
        staging_(device_.index, {options_.max_pooled_staging_bytes,
                                 options_.max_staging_bytes}),
        large_(std::move(parts.large)) {
    for (const auto& executor : executors_) free_.push_back(executor.get());
    completer_ = std::thread([this] { Complete(); });
  }

  // Where batches wait others run, and the thread that finishes those starts
  // them before it asks for more.
  ~CudaBackend() override {
    running_.Close();
    completer_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    RETURN_IF_ERROR(Failure());
    CudaWeightsBudget budget;
    budget.device_index = device_.index;
    budget.device = device_.traits;
    budget.max_n = options_.max_n;
    budget.max_k = options_.max_k;
    budget.max_bytes = options_.max_weights_bytes;
    budget.used_bytes = weights_bytes_;
    budget.lanes = upload_lanes_;
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
    if (ours->goes_by_slabs()) return no_large_;
    return absl::OkStatus();
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(Failure());
    if (batch.weights == nullptr) {
      return absl::InvalidArgumentError("batch: no weights");
    }
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    RETURN_IF_ERROR(CheckSegments(batch, options_.max_batch_rows));
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
      const bool is_only = free_.size() == executors_.size();
      // In turn, so that the scratch of each has soon grown to what batches
      // need.
      BatchExecutor* const executor = free_.front();
      free_.erase(free_.begin());
      running = Start(executor, std::move(waiting));
      if (!may_wait || !is_only || !executor->is_short()) {
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
            device_.traits.multiprocessors};
  }

  BackendMemory memory() const override {
    return {weights_bytes_->load(), staging_.held_bytes(), device_.total_bytes,
            staging_.leased_bytes()};
  }

 private:
  RunningBatch Start(BatchExecutor* executor, WaitingBatch waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(launch_mutex_);
  // Waits for the batch and runs its completion.
  void Finish(RunningBatch* running) ABSL_LOCKS_EXCLUDED(launch_mutex_);
  void Complete();
  // Gives the executor to the batch that waits longest, if one does.
  void GiveBack(BatchExecutor* executor);

  // The error that took the GPU's context, if one did.
  absl::Status Failure();
  void SetFailure(const absl::Status& status);

  const CudaBackendOptions options_;
  const Device device_;
  const ExecutionPolicy policy_;
  const absl::Status no_large_;
  const std::shared_ptr<std::atomic<int64_t>> weights_bytes_;
  const std::shared_ptr<UploadLanePool> upload_lanes_;
  const std::vector<std::unique_ptr<BatchExecutor>> executors_;
  CudaStagingPool staging_;

  // Held while a batch is enqueued: one batch after the other.
  Mutex launch_mutex_;
  const std::unique_ptr<LargeGemm> large_ ABSL_PT_GUARDED_BY(launch_mutex_);
  std::vector<BatchExecutor*> free_ ABSL_GUARDED_BY(launch_mutex_);
  WaitingQueue<WaitingBatch> waiting_ ABSL_GUARDED_BY(launch_mutex_);
  WaitingQueue<RunningBatch> running_;

  std::atomic<bool> has_failed_{false};
  Mutex failure_mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(failure_mutex_);

  std::thread completer_;
};

RunningBatch CudaBackend::Start(BatchExecutor* executor, WaitingBatch waiting) {
  RunningBatch running;
  running.executor = executor;
  running.wait = absl::Now() - waiting.enqueued;
  running.status = SetCurrentDevice(device_.index);
  if (running.status.ok()) {
    running.status = executor->Enqueue(waiting.batch, policy_, large_.get());
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
  absl::StatusOr<BatchTimings> timings = running->executor->Wait();
  status.Update(timings.status());
  if (!status.ok() && running->executor->IsContextLost()) SetFailure(status);
  GiveBack(running->executor);
  BatchTimings reported;
  if (timings.ok()) reported = *timings;
  reported.wait = running->wait;
  WaitingBatch& done = running->waiting;
  std::move(done.completion)(std::move(status), reported,
                             std::move(done.batch));
}

void CudaBackend::GiveBack(BatchExecutor* executor) {
  MutexLock lock(&launch_mutex_);
  std::optional<WaitingBatch> next = waiting_.TryPop();
  if (next.has_value()) {
    running_.Push(Start(executor, *std::move(next)));
  } else {
    free_.push_back(executor);
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
  has_failed_.store(true, std::memory_order_release);
}

absl::Status CheckOptions(const CudaBackendOptions& options) {
  const std::pair<const char*, int64_t> fields[] = {
      {"device", options.device},
      {"max_weights_bytes", options.max_weights_bytes},
      {"max_staging_bytes", options.max_staging_bytes},
      {"max_pooled_staging_bytes", options.max_pooled_staging_bytes},
      {"max_n", options.max_n},
      {"max_k", options.max_k},
      {"max_batch_rows", options.max_batch_rows},
  };
  for (const auto& [name, value] : fields) {
    if (value >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cuda backend: ", name, " = ", value, " is negative"));
  }
  return absl::OkStatus();
}

absl::Status CheckSharedMemory(const DeviceTraits& traits) {
  if (traits.shared_bytes_per_block >= kMinBlockBytes) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU gives a block ", traits.shared_bytes_per_block,
      " bytes of shared memory; the cuda backend needs ", kMinBlockBytes));
}

absl::StatusOr<Device> OpenDevice(int index) {
  Device device;
  device.index = index;
  ASSIGN_OR_RETURN(device.traits, QueryDevice(index));
  RETURN_IF_ERROR(CheckSharedMemory(device.traits));
  ASSIGN_OR_RETURN(device.name, QueryDeviceName(index));
  ASSIGN_OR_RETURN(device.total_bytes, QueryDeviceTotalBytes(index));
  RETURN_IF_ERROR(SetCurrentDevice(index));
  RETURN_IF_ERROR(ToStatus(PrepareWqa16Gemm(), "prepare kernels"));
  RETURN_IF_ERROR(ToStatus(PrepareWqa16Wide(), "prepare kernels"));
  return device;
}

// Thresholds of another GPU may cost time; they never cost correctness.
void WarnOfForeignTuning(const Tuning& tuning, const Device& device) {
  if (tuning.device.empty() || tuning.device == device.name) return;
  LOG(WARNING) << "cuda backend: the tuning was measured on \"" << tuning.device
               << "\" and is used on \"" << device.name << "\"";
}

// Takes the large family into the parts, or goes on without it.
absl::Status OpenLarge(BackendParts& parts) {
  absl::StatusOr<std::unique_ptr<LargeGemm>> large = LargeGemm::Create();
  if (large.ok()) {
    parts.large = *std::move(large);
    return absl::OkStatus();
  }
  if (!absl::IsFailedPrecondition(large.status()) ||
      parts.policy.family.choice == FamilyChoice::kAlwaysWide ||
      parts.policy.family.choice == FamilyChoice::kAlwaysLarge) {
    return large.status();
  }
  parts.no_large = large.status();
  parts.policy.family.choice = FamilyChoice::kAlwaysSmall;
  return absl::OkStatus();
}

void FillIn(BackendParts& parts) {
  CudaBackendOptions& options = parts.options;
  if (options.max_weights_bytes == 0) {
    options.max_weights_bytes = parts.device.total_bytes;
  }
  if (options.max_staging_bytes == 0) {
    options.max_staging_bytes =
        int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaBackendOptions& options) {
  RETURN_IF_ERROR(cuda::CheckOptions(options));
  cuda::BackendParts parts;
  parts.options = options;
  ASSIGN_OR_RETURN(parts.policy.family.choice,
                   cuda::ParseFamilyChoice(options.kernel));
  parts.policy.family.tuning = options.tuning;
  parts.policy.row_moves = options.row_moves;
  ASSIGN_OR_RETURN(parts.device, cuda::OpenDevice(options.device));
  cuda::WarnOfForeignTuning(options.tuning, parts.device);
  RETURN_IF_ERROR(cuda::OpenLarge(parts));
  for (int i = 0; i < cuda::kExecutors; ++i) {
    ASSIGN_OR_RETURN(auto executor, cuda::BatchExecutor::Create());
    parts.executors.push_back(std::move(executor));
  }
  cuda::FillIn(parts);
  return std::make_unique<cuda::CudaBackend>(std::move(parts));
}

}  // namespace qgemm
