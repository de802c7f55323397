// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts together: one dispatcher thread takes batches from the queue
// and runs each on all threads.

#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "kernels/cpu/batch_queue.h"
#include "kernels/cpu/batch_runner.h"
#include "kernels/cpu/cpu_weights_builder.h"
#include "kernels/cpu/processor_name.h"
#include "kernels/cpu/staging_pool.h"
#include "kernels/cpu/support.h"

namespace qgemm {
namespace {

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

// About 5 ms of work, at the rates of kernel_bench for many rows of 4-bit
// weights on one core of a Xeon of 2023 (bench/results/cpu.json); other
// processors are within a small factor of it.
int64_t ChunkMultiplyAdds(CpuIsa isa, int threads) {
  constexpr int64_t kChunksPerSecond = 200;
  const int64_t a_thread_per_second =
      isa == CpuIsa::kScalar ? int64_t{1'000'000'000}
      : isa == CpuIsa::kAvx2 ? int64_t{40'000'000'000}
                             : int64_t{75'000'000'000};
  return threads * a_thread_per_second / kChunksPerSecond;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuBackendOptions& options, CpuIsa isa)
      : options_(options),
        isa_(isa),
        device_(ProcessorName()),
        weights_bytes_(std::make_shared<std::atomic<int64_t>>(0)),
        staging_(options.max_pooled_staging_bytes, options.max_staging_bytes),
        runner_(isa, options.threads),
        dispatcher_([this] { Dispatch(); }) {}

  ~CpuBackend() override {
    queue_.Close();
    dispatcher_.join();
  }

  absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() override {
    return std::make_unique<CpuWeightsBuilder>(
        CpuWeightsBudget{options_.max_n, options_.max_k,
                         options_.max_weights_bytes, weights_bytes_});
  }

  int64_t EstimateResidentBytes(const WeightsShape& shape) const override {
    const absl::StatusOr<PackedLayout> layout = LayoutOf(shape);
    return layout.ok() ? AlignedMemory::HeldBytes(layout->total_bytes) : 0;
  }

  absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) override {
    return staging_.Acquire(size_bytes);
  }

  absl::Status CheckSupport(const ResidentWeights& weights,
                            const MatmulSignature& signature) const override {
    const auto* ours = dynamic_cast<const CpuWeights*>(&weights);
    if (ours == nullptr) {
      return absl::InvalidArgumentError(
          "weights: resident on another backend than cpu");
    }
    return CheckSignature(ours->traits(), signature);
  }

  absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) override {
    if (batch.weights == nullptr) {
      return absl::InvalidArgumentError("batch: no weights");
    }
    RETURN_IF_ERROR(CheckSupport(*batch.weights, batch.signature));
    RETURN_IF_ERROR(CheckSegments(batch, options_.max_batch_rows));
    queue_.Push({std::move(batch), std::move(completion), absl::Now()});
    return absl::OkStatus();
  }

  BackendLimits limits() const override {
    BackendLimits limits;
    limits.max_n = options_.max_n;
    limits.max_k = options_.max_k;
    limits.max_batch_rows = options_.max_batch_rows;
    limits.chunk_multiply_adds = ChunkMultiplyAdds(isa_, runner_.threads());
    return limits;
  }

  BackendDescription describe() const override {
    return {"cpu", device_, std::string(Name(isa_)), runner_.threads()};
  }

  BackendMemory memory() const override {
    return {weights_bytes_->load(), staging_.held_bytes(),
            PhysicalMemoryBytes(), staging_.leased_bytes()};
  }

 private:
  void Dispatch() {
    while (std::optional<QueuedBatch> next = queue_.Pop()) {
      const absl::Time start = absl::Now();
      absl::Status status = runner_.Run(next->batch);
      BatchTimings timings;
      timings.wait = start - next->enqueued;
      timings.kernel = absl::Now() - start;
      std::move(next->completion)(std::move(status), timings,
                                  std::move(next->batch));
    }
  }

  const CpuBackendOptions options_;
  const CpuIsa isa_;
  const std::string device_;
  const std::shared_ptr<std::atomic<int64_t>> weights_bytes_;
  StagingPool staging_;
  BatchQueue queue_;
  BatchRunner runner_;  // the dispatcher's
  std::thread dispatcher_;
};

absl::Status CheckOptions(const CpuBackendOptions& options) {
  const std::pair<const char*, int64_t> fields[] = {
      {"threads", options.threads},
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
        absl::StrCat("cpu backend: ", name, " = ", value, " is negative"));
  }
  return absl::OkStatus();
}

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
    const CpuBackendOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const CpuIsa isa, ChooseIsa(options.isa));
  CpuBackendOptions filled = options;
  if (filled.threads == 0) filled.threads = AvailableProcessors();
  if (filled.max_weights_bytes == 0) {
    filled.max_weights_bytes = PhysicalMemoryBytes();
  }
  if (filled.max_staging_bytes == 0) {
    filled.max_staging_bytes = PhysicalMemoryBytes();
  }
  return std::make_unique<CpuBackend>(filled, isa);
}

}  // namespace qgemm
