// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts together: one dispatcher thread takes batches from the queue
// and runs each on all threads. A small batch that may run inline does so while
// there is no other: waking the dispatcher would take longer.

#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/fifo_queue.h"
#include "base/host_memory.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/batch_runner.h"
#include "kernels/cpu/cpu_images.h"
#include "kernels/cpu/cpu_program.h"
#include "kernels/cpu/cpu_weights.h"
#include "kernels/cpu/program_executor.h"
#include "kernels/cpu/support.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/staging_pool.h"
#include "kernels/host/sticky_failure.h"
#include "kernels/programs/program_runner.h"

namespace qgemm::cpu {
namespace {

// The model name that Linux reports, or "unknown processor".
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "unknown processor";
}

// About a second of work of a thread, at the rates of kernel_bench for many
// rows of 4-bit weights in fp16 on one core of a Xeon of 2023
// (bench/results/cpu*.json); other processors and types are within a small
// factor of it.
int64_t MultiplyAddsPerSecond(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return 1'000'000'000;
    case CpuIsa::kAvx2:
      return 40'000'000'000;
    case CpuIsa::kAmx:
      return 150'000'000'000;
    default:
      return 75'000'000'000;
  }
}

// A chunk is about 5 ms of work. A launch of merged requests, or of rows that
// cannot be cut so finely, is an eighth of a second at most: others wait for
// two. No layer below 1.5e8 elements has 64 rows cut by it on two threads.
constexpr int64_t kChunksPerSecond = 200;
constexpr int64_t kLaunchesPerSecond = 8;

// Size of a batch that may run inline: some microseconds of work. While a
// larger one kept its caller from reading further requests, they could not be
// merged: 32 clients of 512x512 in kbit4 would be served a fifth slower.
constexpr int64_t kMaxInlineRows = 16;
constexpr int64_t kMaxInlineBytes = int64_t{80} << 10;

int64_t TouchedBytes(const GemmBatch& batch) {
  const ResidentWeights& weights = *batch.weights;
  constexpr int64_t kMostOfElement = sizeof(float);
  return weights.resident_bytes() +
         batch.rows() * (weights.n() + weights.k()) * kMostOfElement;
}

int64_t TouchedBytes(const ProgramBatch& batch) {
  return static_cast<const CpuProgram&>(*batch.program)
      .TouchedBytes(batch.rows());
}

// Holds a thread once a fault closes it, as an item that does not end would.
// Thread-safe.
class HangGate {
 public:
  void Close() { closed_.store(true, std::memory_order_relaxed); }

  // From here on the gate holds nobody.
  void Open() {
    MutexLock lock(&mutex_);
    closed_.store(false, std::memory_order_relaxed);
    opened_.SignalAll();
  }

  bool is_closed() const { return closed_.load(std::memory_order_relaxed); }

  void Pass() {
    if (!closed_.load(std::memory_order_relaxed)) return;
    MutexLock lock(&mutex_);
    while (closed_.load(std::memory_order_relaxed)) opened_.Wait(&mutex_);
  }

 private:
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar opened_;
};

class CpuBackend final : public Backend, private ProgramRunner {
 public:
  CpuBackend(const CpuOptions& options, CpuIsa isa)
      : options_(options),
        isa_(isa),
        device_(ProcessorName()),
        weights_budget_({"cpu weights", options.max_weights_bytes,
                         "unload weights to make room", nullptr}),
        staging_({options.max_pooled_staging_bytes, options.max_staging_bytes},
                 AlignedMemory::Allocate),
        runner_(isa, options.threads),
        executor_(&runner_),
        kept_(options.keep_memory
                  ? std::make_unique<CpuKeptMemory>(limits(), &weights_budget_)
                  : nullptr),
        layers_{&weights_budget_, kept_ == nullptr ? nullptr : kept_->arena()},
        images_(limits(), layers_),
        dispatcher_([this] { Dispatch(); }) {}

  ~CpuBackend() override {
    hang_gate_.Open();
    queue_.Close();
    dispatcher_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    RETURN_IF_ERROR(failure());
    return std::make_unique<CpuWeightsBuilder>(limits(), layers_);
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    const absl::StatusOr<PackedLayout> layout = LayoutOf(shape);
    return layout.ok() ? AlignedMemory::HeldBytes(layout->total_bytes) : 0;
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return staging_.Acquire(size_bytes);
  }

  // Operands may lie anywhere.
  absl::StatusOr<StagingLease> LeaseHostMemory(uint8_t* data,
                                               int64_t size_bytes) override {
    return StagingLease(data, size_bytes, nullptr);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    const auto* ours = dynamic_cast<const CpuWeights*>(&weights);
    if (ours == nullptr) {
      return absl::InvalidArgumentError(
          "weights: resident on another backend than cpu");
    }
    return CheckSignature(ours->shape(), signature);
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckBatch(batch, options_.max_batch_rows));
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    Start(QueuedGemm{std::move(batch), std::move(completion)});
    return absl::OkStatus();
  }

  ProgramRunner* programs() override { return this; }

  KeptMemory* kept_memory() override { return kept_.get(); }
  LayerImages* images() override { return &images_; }

  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckProgramSupport(*this, *program, weights));
    return CpuProgram::Create(std::move(program), std::move(weights));
  }

  absl::Status EnqueueProgram(ProgramBatch batch,
                              ProgramCompletion completion) override {
    RETURN_IF_ERROR(failure());
    RETURN_IF_ERROR(CheckProgramBatch(batch, options_.max_batch_rows));
    Start(QueuedProgram{std::move(batch), std::move(completion)});
    return absl::OkStatus();
  }

  absl::Status failure() const override { return failure_.status(); }

  // Batches run one after the other, so that the runner's is the oldest.
  uint64_t progress() const override { return runner_.progress(); }

  void GiveUp(const absl::Status& reason) override {
    failure_.Set(absl::StrCat("cpu backend: takes no more batches after: ",
                              reason.message()));
  }

  absl::Status InjectFault(BackendFault fault) override {
    if (fault == BackendFault::kHang) {
      hang_gate_.Close();
    } else {
      GiveUp(absl::UnavailableError("a fault on demand"));
    }
    return absl::OkStatus();
  }

  BackendLimits limits() const override {
    BackendLimits limits;
    limits.max_n = options_.max_n;
    limits.max_k = options_.max_k;
    limits.max_batch_rows = options_.max_batch_rows;
    const int64_t per_second = runner_.threads() * MultiplyAddsPerSecond(isa_);
    limits.launch_multiply_adds = per_second / kLaunchesPerSecond;
    limits.chunk_multiply_adds = per_second / kChunksPerSecond;
    if (isa_ == CpuIsa::kAmx) limits.least_chunk_rows = kScaledRows;
    return limits;
  }

  BackendDescription describe() const override {
    return {"cpu", device_, std::string(Name(isa_)), runner_.threads()};
  }

  BackendMemory memory() const override {
    return {weights_budget_.used_bytes(), staging_.held_bytes(),
            HostMemoryBytes(), staging_.leased_bytes(), default_weights_bytes_};
  }

 private:
  struct QueuedGemm {
    GemmBatch batch;
    BatchCompletion completion;
  };
  struct QueuedProgram {
    ProgramBatch batch;
    ProgramCompletion completion;
  };
  struct Entry {
    std::variant<QueuedGemm, QueuedProgram> work;
    absl::Time enqueued;
  };

  template <typename Work>
  void Start(Work work) {
    const absl::Time now = SteadyClock().Now();
    if (work.batch.hint != ExecutionHint::kAsync &&
        work.batch.rows() <= kMaxInlineRows &&
        TouchedBytes(work.batch) <= kMaxInlineBytes &&
        !hang_gate_.is_closed() && BeginAlone()) {
      return RunWork(work, now);
    }
    unended_.fetch_add(1);
    queue_.Push({std::move(work), now});
  }

  // Counts a batch if there is no other, queued or running.
  bool BeginAlone() {
    int64_t none = 0;
    return unended_.compare_exchange_strong(none, 1);
  }

  void Dispatch() {
    while (std::optional<Entry> next = queue_.Pop()) {
      std::visit([&](auto& work) { RunWork(work, next->enqueued); },
                 next->work);
    }
  }

  template <typename Work>
  void RunWork(Work& work, absl::Time enqueued) {
    const absl::Time start = SteadyClock().Now();
    hang_gate_.Pass();
    absl::StatusOr<std::vector<absl::Duration>> ops =
        RunExclusively(work.batch);
    unended_.fetch_sub(1);
    BatchTimings timings;
    timings.wait = start - enqueued;
    timings.kernel = SteadyClock().Now() - start;
    if (ops.ok()) timings.ops.swap(*ops);
    std::move(work.completion)(ops.status(), timings, std::move(work.batch));
  }

  template <typename Batch>
  absl::StatusOr<std::vector<absl::Duration>> RunExclusively(
      const Batch& batch) {
    MutexLock lock(&run_mutex_);
    return Run(batch);
  }

  // Both return the times of ops that were asked for.
  absl::StatusOr<std::vector<absl::Duration>> Run(const GemmBatch& batch) {
    RETURN_IF_ERROR(runner_.Run(batch));
    return std::vector<absl::Duration>();
  }
  absl::StatusOr<std::vector<absl::Duration>> Run(const ProgramBatch& batch) {
    return executor_.Run(batch);
  }

  const CpuOptions options_;
  const CpuIsa isa_;
  const std::string device_;
  // The other half is for operands, answers and messages.
  const int64_t default_weights_bytes_ = MemoryLimitBytes() / 2;
  ByteBudget weights_budget_;
  StagingPool<AlignedMemory> staging_;
  FifoQueue<Entry> queue_;
  HangGate hang_gate_;
  StickyFailure failure_;
  std::atomic<int64_t> unended_{0};  // batches that wait or run
  Mutex run_mutex_;                  // held by the thread that runs one
  BatchRunner runner_;
  ProgramExecutor executor_;
  const std::unique_ptr<CpuKeptMemory> kept_;  // null: nothing outlives us
  const CpuWeightsMemory layers_;
  CpuImages images_;
  std::thread dispatcher_;
};

absl::StatusOr<CpuIsa> ChooseIsa(std::optional<CpuIsa> wanted) {
  const std::vector<CpuIsa> supported = SupportedCpuIsas();
  if (!wanted.has_value()) return supported.back();
  if (std::find(supported.begin(), supported.end(), *wanted) !=
      supported.end()) {
    return *wanted;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "cpu backend: isa = ", Name(*wanted),
      " is not supported here; the best is ", Name(supported.back())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(
    const CpuOptions& options) {
  RETURN_IF_ERROR(CheckOptions(
      "cpu backend",
      {{"threads", options.threads},
       {"max_weights_bytes", options.max_weights_bytes},
       {"max_staging_bytes", options.max_staging_bytes},
       {"max_pooled_staging_bytes", options.max_pooled_staging_bytes},
       {"max_n", options.max_n},
       {"max_k", options.max_k},
       {"max_batch_rows", options.max_batch_rows}}));
  ASSIGN_OR_RETURN(const CpuIsa isa, ChooseIsa(options.isa));
  CpuOptions filled = options;
  if (filled.threads == 0) filled.threads = AvailableProcessors();
  if (filled.max_weights_bytes == 0) {
    filled.max_weights_bytes = HostMemoryBytes();
  }
  if (filled.max_staging_bytes == 0) {
    filled.max_staging_bytes = HostMemoryBytes();
  }
  return std::make_unique<CpuBackend>(filled, isa);
}

}  // namespace qgemm::cpu
