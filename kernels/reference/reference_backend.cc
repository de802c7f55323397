// SPDX-License-Identifier: Apache-2.0
//
// The queue and the thread around ReferenceMatmul and ReferenceRun.

#include "kernels/reference/reference_backend.h"

#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_budget.h"
#include "base/clock.h"
#include "base/fifo_queue.h"
#include "base/host_memory.h"
#include "base/status_macros.h"
#include "kernels/host/batch_checks.h"
#include "kernels/programs/program_runner.h"
#include "kernels/reference/reference_matmul.h"
#include "kernels/reference/reference_program.h"

namespace qgemm::reference {
namespace {

class ReferenceBackend final : public Backend, private ProgramRunner {
 public:
  ReferenceBackend(const BackendLimits& limits, int64_t memory_bytes)
      : limits_(limits),
        weights_budget_({"reference weights", memory_bytes, "", nullptr}),
        staging_budget_({"staging", memory_bytes, "", nullptr}),
        thread_([this] { RunBatches(); }) {}

  ~ReferenceBackend() override {
    queue_.Close();
    thread_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return NewReferenceBuilder(limits_, &weights_budget_);
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    return CanonicalBytes(shape);
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return AcquireHostStaging(size_bytes, &staging_budget_);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    return CheckReferenceSupport(
        static_cast<const ReferenceWeights&>(weights).canonical().header(),
        signature);
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    RETURN_IF_ERROR(CheckBatch(batch, limits_.max_batch_rows));
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    queue_.Push({QueuedGemm{std::move(batch), std::move(completion)},
                 SteadyClock().Now()});
    return absl::OkStatus();
  }

  ProgramRunner* programs() override { return this; }

  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Compile(
      std::shared_ptr<const CheckedProgram> program,
      WeightsOfProgram weights) override {
    RETURN_IF_ERROR(CheckProgramSupport(*this, *program, weights));
    return NewReferenceProgram(std::move(program), std::move(weights));
  }

  absl::Status EnqueueProgram(ProgramBatch batch,
                              ProgramCompletion completion) override {
    RETURN_IF_ERROR(CheckProgramBatch(batch, limits_.max_batch_rows));
    queue_.Push({QueuedProgram{std::move(batch), std::move(completion)},
                 SteadyClock().Now()});
    return absl::OkStatus();
  }

  BackendLimits limits() const override { return limits_; }

  BackendDescription describe() const override {
    return {"reference", "host processor", "fp64", 1};
  }

  BackendMemory memory() const override {
    return {weights_budget_.used_bytes(), staging_budget_.used_bytes(),
            weights_budget_.limit_bytes(), staging_budget_.used_bytes(),
            default_weights_bytes_};
  }

 private:
  struct QueuedGemm {
    GemmBatch batch;
    BatchCompletion completion;

    std::vector<absl::Duration> Run() const {
      ReferenceMatmul(batch);
      return {};
    }
  };
  struct QueuedProgram {
    ProgramBatch batch;
    ProgramCompletion completion;

    std::vector<absl::Duration> Run() const { return ReferenceRun(batch); }
  };
  struct Entry {
    std::variant<QueuedGemm, QueuedProgram> work;
    absl::Time enqueued;
  };

  void RunBatches() {
    while (std::optional<Entry> entry = queue_.Pop()) {
      std::visit([&](auto& work) { RunWork(work, entry->enqueued); },
                 entry->work);
    }
  }

  template <typename Work>
  static void RunWork(Work& work, absl::Time enqueued) {
    const absl::Time start = SteadyClock().Now();
    BatchTimings timings;
    timings.ops = work.Run();
    timings.wait = start - enqueued;
    timings.kernel = SteadyClock().Now() - start;
    work.completion(absl::OkStatus(), timings, std::move(work.batch));
  }

  const BackendLimits limits_;
  // The other half is for operands, answers and messages.
  const int64_t default_weights_bytes_ = MemoryLimitBytes() / 2;
  ByteBudget weights_budget_;
  ByteBudget staging_budget_;
  FifoQueue<Entry> queue_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateReferenceBackend(
    const ReferenceOptions& options) {
  const BackendLimits& limits = options.limits;
  RETURN_IF_ERROR(CheckOptions("reference backend",
                               {{"max_n", limits.max_n},
                                {"max_k", limits.max_k},
                                {"max_batch_rows", limits.max_batch_rows}},
                               1));
  RETURN_IF_ERROR(CheckOptions("reference backend",
                               {{"memory_bytes", options.memory_bytes}}));
  const int64_t memory_bytes =
      options.memory_bytes > 0 ? options.memory_bytes : HostMemoryBytes();
  return std::make_unique<ReferenceBackend>(limits, memory_bytes);
}

}  // namespace qgemm::reference
