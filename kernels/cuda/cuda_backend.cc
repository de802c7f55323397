// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts together. A batch is enqueued on a free launch context by the
// thread that brings it, or by the one that finishes the batch before; a
// completion thread waits for batches in the order of their starts, but for
// those that another thread attends (running_batches.h). Waking it
// takes as long as a short batch: a short batch that runs alone and may run
// inline is waited for by its caller, for a moment. A watcher asks an idle
// device too if it still answers.

#include "kernels/cuda/cuda_backend.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/fifo_queue.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/cuda/backend_parts.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/cuda_images.h"
#include "kernels/cuda/cuda_program.h"
#include "kernels/cuda/cuda_weights.h"
#include "kernels/cuda/cuda_weights_builder.h"
#include "kernels/cuda/gemm_launcher.h"
#include "kernels/cuda/launch/fault.h"
#include "kernels/cuda/launch_context.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/cuda/running_batches.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/upload_context.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/staging_pool.h"
#include "kernels/host/sticky_failure.h"
#include "kernels/programs/program_runner.h"

namespace qgemm {
namespace cuda {
namespace {

// A caller waits no longer for a short batch, which takes 0.1 ms: it has
// connections to serve.
constexpr absl::Duration kMaxInlineWait = absl::Milliseconds(2);

class CudaBackend final : public Backend,
                          private ProgramRunner,
                          private CompletionPoller {
 public:
  explicit CudaBackend(BackendParts parts)
      : options_(std::move(parts.options)),
        device_(std::move(parts.device)),
        policy_(std::move(parts.policy)),
        no_cublas_(std::move(parts.no_cublas)),
        weights_budget_(std::move(parts.weights)),
        kept_(std::move(parts.kept)),
        layers_(MakeLayers()),
        images_(layers_),
        program_stream_(std::move(parts.program_stream)),
        contexts_(std::move(parts.contexts)),
        staging_(
            {options_.max_pooled_staging_bytes, options_.max_staging_bytes},
            [index = device_.index](int64_t bytes) {
              return AllocatePinned(index, bytes);
            }),
        cublas_(std::move(parts.cublas)),
        watcher_(device_.index) {
    for (const auto& context : contexts_) free_.push_back(context.get());
    completer_ = std::thread([this] { Complete(); });
    watcher_.Start([this](const absl::Status& lost) { SetFailure(lost); });
  }

  // Batches that wait are started by the thread that finishes those before
  // them, so that it ends with none waiting.
  ~CudaBackend() override {
    watcher_.Stop();
    EndFaults();
    running_.Close();
    completer_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    RETURN_IF_ERROR(failure());
    return std::make_unique<CudaWeightsBuilder>(layers_);
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    return cuda::EstimateResidentBytes(shape, device_.traits);
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return staging_.Acquire(size_bytes);
  }

  absl::StatusOr<StagingLease> LeaseHostMemory(uint8_t* data,
                                               int64_t size_bytes) override {
    RETURN_IF_ERROR(failure());
    return RegisterHostMemory(device_.index, data, size_bytes);
  }

  absl::StatusOr<StagingLease> ImportDeviceMemory(
      const DeviceMemory& memory) override {
    RETURN_IF_ERROR(failure());
    return MapDeviceMemory(device_.index, memory);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    const auto* ours = dynamic_cast<const CudaWeights*>(&weights);
    if (ours == nullptr) {
      return absl::InvalidArgumentError(
          "weights: resident on another backend than cuda");
    }
    RETURN_IF_ERROR(CheckSignature(*ours, signature));
    if (ours->uses_cublas()) return no_cublas_;
    return absl::OkStatus();
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckBatch(batch, options_.max_batch_rows));
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    const ExecutionHint hint = batch.hint;
    EnqueueWork(GemmWork{std::move(batch), std::move(completion)}, hint);
    return absl::OkStatus();
  }

  ProgramRunner* programs() override { return this; }
  CompletionPoller* completions() override { return this; }

  KeptMemory* kept_memory() override { return kept_.get(); }
  LayerImages* images() override { return &images_; }

  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckProgramSupport(*this, *program, weights));
    RETURN_IF_ERROR(SetCurrentDevice(device_.index));
    return CudaProgram::Create(std::move(program), std::move(weights),
                               {&device_, &policy_, cublas_.get()});
  }

  absl::Status EnqueueProgram(ProgramBatch batch,
                              ProgramCompletion completion) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckProgramBatch(batch, options_.max_batch_rows));
    const ExecutionHint hint = batch.hint;
    EnqueueWork(ProgramWork{std::move(batch), std::move(completion)}, hint);
    return absl::OkStatus();
  }

  // Whoever looks at a stream has a device, or takes the first of all.
  void Attend() override {
    running_.SetAttended(SetCurrentDevice(device_.index).ok());
  }
  void Leave() override { running_.SetAttended(false); }
  PollResult Poll() override;

  absl::Status failure() const override { return failure_.status(); }

  void GiveUp(const absl::Status& reason) override {
    SetFailure(reason);
    given_up_.store(true, std::memory_order_relaxed);
    running_.EndAttendance();
  }

  absl::Status InjectFault(BackendFault fault) override;

  BackendLimits limits() const override { return LimitsOf(options_); }

  BackendDescription describe() const override {
    const int capability = device_.traits.compute_capability;
    return {"cuda", device_.name,
            absl::StrCat("compute capability ", capability / 10, ".",
                         capability % 10),
            device_.traits.sm_count};
  }

  BackendMemory memory() const override {
    // Memory that the last server left was in use when the GPU was opened.
    const int64_t adopted_bytes = kept_ == nullptr ? 0 : kept_->adopted_bytes();
    return {weights_budget_->used_bytes(), staging_.held_bytes(),
            device_.total_bytes, staging_.leased_bytes(),
            (device_.free_bytes + adopted_bytes) / 5 * 4};
  }

 private:
  CudaWeightsBudget MakeLayers() const {
    CudaWeightsBudget budget;
    budget.device_index = device_.index;
    budget.device = device_.traits;
    budget.policy = policy_;
    budget.limits = limits();
    budget.weights = weights_budget_;
    budget.kept = kept_.get();
    budget.contexts = std::make_shared<UploadContextPool>(device_.index);
    return budget;
  }

  void EnqueueWork(std::variant<GemmWork, ProgramWork> work, ExecutionHint hint)
      ABSL_LOCKS_EXCLUDED(launch_mutex_);
  RunningBatch Start(LaunchContext* context, WaitingBatch waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(launch_mutex_);
  // Runs the completion of a batch that is done.
  void Finish(RunningBatch* running) ABSL_LOCKS_EXCLUDED(launch_mutex_);
  void Complete();
  // Gives the context to the batch that waits longest, if one does.
  void GiveBack(LaunchContext* context);

  // `cause` took the GPU's context, or the backend was given up for it.
  void SetFailure(const absl::Status& cause);
  void EndFaults() ABSL_LOCKS_EXCLUDED(launch_mutex_);

  const CudaOptions options_;
  const Device device_;
  const KernelPolicy policy_;
  const absl::Status no_cublas_;
  const std::shared_ptr<ByteBudget> weights_budget_;
  const std::unique_ptr<CudaKeptMemory> kept_;  // null: nothing outlives us
  const CudaWeightsBudget layers_;
  CudaImages images_;
  const Stream program_stream_;  // of all contexts
  const std::vector<std::unique_ptr<LaunchContext>> contexts_;
  StagingPool<PinnedBuffer> staging_;

  // Held while a batch is enqueued: one batch after the other.
  Mutex launch_mutex_;
  const std::unique_ptr<CublasGemm> cublas_ ABSL_PT_GUARDED_BY(launch_mutex_);
  std::vector<LaunchContext*> free_ ABSL_GUARDED_BY(launch_mutex_);
  FifoQueue<WaitingBatch> waiting_ ABSL_GUARDED_BY(launch_mutex_);
  RunningBatches running_;
  // Word that ends the kernels of a fault that hangs; empty without one.
  PinnedBuffer hang_release_ ABSL_GUARDED_BY(launch_mutex_);

  StickyFailure failure_;
  std::atomic<bool> given_up_{false};
  // Batches that the device had not ended when the backend was given up: their
  // weights and contexts stay. The completer's own.
  std::vector<RunningBatch> lost_;

  DeviceWatcher watcher_;
  std::thread completer_;
};

void CudaBackend::EnqueueWork(std::variant<GemmWork, ProgramWork> work,
                              ExecutionHint hint) {
  WaitingBatch waiting = {std::move(work), SteadyClock().Now()};
  RunningBatch running;
  {
    MutexLock lock(&launch_mutex_);
    if (free_.empty()) {
      waiting_.Push(std::move(waiting));
      return;
    }
    const bool is_only = free_.size() == contexts_.size();
    // In turn, so that the scratch of each has soon grown to what batches
    // need.
    LaunchContext* const context = free_.front();
    free_.erase(free_.begin());
    running = Start(context, std::move(waiting));
    if (hint != ExecutionHint::kMayRunInline || !is_only ||
        !context->is_short()) {
      running_.Push(std::move(running));
      return;
    }
  }
  if (running.context->SpinUntilDone(kMaxInlineWait, given_up_) ==
      WaitEnd::kDone) {
    Finish(&running);
  } else {
    running_.Push(std::move(running));
  }
}

RunningBatch CudaBackend::Start(LaunchContext* context, WaitingBatch waiting) {
  RunningBatch running;
  running.context = context;
  running.wait = SteadyClock().Now() - waiting.enqueued;
  running.status = SetCurrentDevice(device_.index);
  if (running.status.ok()) {
    const LaunchEnvironment environment = {&device_, &policy_, cublas_.get()};
    running.status = std::visit(
        [&](const auto& work) {
          return context->Enqueue(work.batch, environment);
        },
        waiting.work);
  }
  running.waiting = std::move(waiting);
  return running;
}

void CudaBackend::Complete() {
  const absl::Status current = SetCurrentDevice(device_.index);
  while (std::optional<RunningBatch> next = running_.Pop()) {
    next->status.Update(current);
    if (next->context->SpinUntilDone(absl::InfiniteDuration(), given_up_) ==
        WaitEnd::kDone) {
      Finish(&*next);
    } else {
      lost_.push_back(*std::move(next));
    }
  }
}

PollResult CudaBackend::Poll() {
  RunningBatch running;
  const PollResult result = running_.PopIfDone(&running);
  if (result == PollResult::kEnded) Finish(&running);
  return result;
}

void CudaBackend::Finish(RunningBatch* running) {
  absl::Status status = running->status;
  // Waits after an error as well: what went before it may still run.
  absl::StatusOr<BatchTimings> timings = running->context->Wait();
  status.Update(timings.status());
  if (!status.ok() && running->context->IsContextLost()) {
    SetFailure(status);
    status = failure();
  }
  GiveBack(running->context);
  BatchTimings reported;
  if (timings.ok()) reported = *timings;
  reported.wait = running->wait;
  std::visit(
      [&](auto& done) {
        std::move(done.completion)(std::move(status), reported,
                                   std::move(done.batch));
      },
      running->waiting.work);
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

void CudaBackend::SetFailure(const absl::Status& cause) {
  failure_.Set(
      absl::StrCat("cuda backend: GPU ", device_.index, " (", device_.name,
                   ") takes no more batches after: ", cause.message()));
}

// On the streams of the batches: those enqueued later wait for it there.
absl::Status CudaBackend::InjectFault(BackendFault fault) {
  RETURN_IF_ERROR(SetCurrentDevice(device_.index));
  MutexLock lock(&launch_mutex_);
  if (fault == BackendFault::kLoseDevice) {
    return ToStatus(LaunchIllegalAccess(contexts_.front()->stream()),
                    "launch the kernel that loses the device");
  }
  if (hang_release_.data() == nullptr) {
    ASSIGN_OR_RETURN(hang_release_, PinnedBuffer::Allocate(sizeof(uint32_t)));
    std::memset(hang_release_.data(), 0, sizeof(uint32_t));
  }
  std::vector<cudaStream_t> streams = {program_stream_.get()};
  for (const auto& context : contexts_) streams.push_back(context->stream());
  for (const cudaStream_t stream : streams) {
    const auto* release = reinterpret_cast<uint32_t*>(hang_release_.data());
    RETURN_IF_ERROR(
        ToStatus(LaunchHang(release, stream), "launch the kernel that hangs"));
  }
  return absl::OkStatus();
}

void CudaBackend::EndFaults() {
  MutexLock lock(&launch_mutex_);
  if (hang_release_.data() == nullptr) return;
  __atomic_store_n(reinterpret_cast<uint32_t*>(hang_release_.data()), 1,
                   __ATOMIC_RELEASE);
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaOptions& options) {
  ASSIGN_OR_RETURN(cuda::BackendParts parts, cuda::MakeBackendParts(options));
  return std::make_unique<cuda::CudaBackend>(std::move(parts));
}

}  // namespace qgemm
