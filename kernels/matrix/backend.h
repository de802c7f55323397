// SPDX-License-Identifier: Apache-2.0
//
// Interface of the backends, which hold repacked weights resident and multiply
// batches of activation rows with them, asynchronously. Every backend passes
// the suite in tests/conformance.

#ifndef QGEMM_KERNELS_MATRIX_BACKEND_H_
#define QGEMM_KERNELS_MATRIX_BACKEND_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/types.h"
#include "kernels/matrix/weights.h"

namespace qgemm {

// One layer, repacked and resident on a backend's devices. Immutable and
// thread-safe; the memory goes back when the last reference goes.
class ResidentWeights {
 public:
  virtual ~ResidentWeights() = default;

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  // Memory held for the layer, in bytes, padding and metadata included.
  virtual int64_t resident_bytes() const = 0;

 protected:
  ResidentWeights(int64_t n, int64_t k) : n_(n), k_(k) {}

 private:
  const int64_t n_;
  const int64_t k_;
};

// Repacks one layer while it arrives. Used by one thread at a time; dropping
// it before Finish releases all it took.
class WeightsBuilder : public WeightsSink {
 public:
  // The layer, once every element has been written. The builder is spent then.
  virtual absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() = 0;
};

// Host memory of the kind the backend reads and writes fastest. Move-only;
// goes back to the backend's pool when it is destroyed, on any thread. Must
// not outlive its backend.
class StagingLease {
 public:
  // `data` is aligned to 64 bytes and holds `size_bytes`; `release` runs once.
  StagingLease(uint8_t* data, int64_t size_bytes,
               absl::AnyInvocable<void()> release)
      : data_(data), size_bytes_(size_bytes), release_(std::move(release)) {}
  StagingLease() = default;
  StagingLease(StagingLease&& other) noexcept { *this = std::move(other); }
  StagingLease& operator=(StagingLease&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_bytes_ = std::exchange(other.size_bytes_, 0);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~StagingLease() { Reset(); }

  uint8_t* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)();
  }

  uint8_t* data_ = nullptr;
  int64_t size_bytes_ = 0;
  absl::AnyInvocable<void()> release_;
};

// Memory on a GPU, as its owner's driver exported it to other processes.
struct DeviceMemory {
  int descriptor = -1;  // a POSIX file descriptor, borrowed
  int64_t size_bytes = 0;
  std::array<uint8_t, 16> device_uuid = {};  // of the GPU
};

// The rows of one request inside a batch. Both point into staging leases of
// the backend that runs the batch, are row-major without gaps and start on a
// 64-byte boundary.
struct RowSegment {
  int64_t rows = 0;
  const uint8_t* a = nullptr;  // [rows, k] of the signature's a_type
  uint8_t* c = nullptr;        // [rows, n] of the signature's c_type
  // Rows of the whole request, if these are a part of it.
  int64_t whole_rows = 0;

  int64_t request_rows() const { return std::max(whole_rows, rows); }
};

// Permission that Enqueue has for a batch.
enum class ExecutionHint : uint8_t {
  kAsync,         // returns at once
  kMayCompute,    // may compute a small batch and run its completion before it
                  // returns, if it waits for nothing meanwhile
  kMayRunInline,  // may do so with any batch, and wait for a device, where that
                  // ends the batch sooner than waking a thread
};

// Work for one launch: one layer, one signature, the rows of one or many
// requests. C = A * W^T + bias for every segment.
struct GemmBatch {
  std::shared_ptr<const ResidentWeights> weights;
  MatmulSignature signature;
  std::vector<RowSegment> segments;
  ExecutionHint hint = ExecutionHint::kAsync;

  int64_t rows() const {
    int64_t sum = 0;
    for (const RowSegment& segment : segments) sum += segment.rows;
    return sum;
  }
};

// Durations of a batch's stages, as the backend saw them.
struct BatchTimings {
  absl::Duration wait;            // from Enqueue to the start of its work
  absl::Duration host_to_device;  // zero where operands are read in place
  absl::Duration kernel;
  absl::Duration device_to_host;
  // Parts of `kernel`, one an op of a program, if the batch asks for them
  // (program_runner.h) and the backend can tell; else empty.
  std::vector<absl::Duration> ops = {};
};

// Runs exactly once a batch, possibly on a thread of the backend's, after the
// last read of A and the last write of C. Must not block for long. The batch
// comes back so that its owner may release or reuse what it holds.
using BatchCompletion = absl::AnyInvocable<void(
    absl::Status status, const BatchTimings& timings, GemmBatch batch)>;

// Largest work that a backend takes; requests beyond it are refused before any
// work. Also its advice to schedulers.
struct BackendLimits {
  int64_t max_n = 0;
  int64_t max_k = 0;
  // Rows of one batch.
  int64_t max_batch_rows = 0;
  // Merging pays off for requests of at most this many rows, until the launch
  // has this many.
  int64_t merge_rows = 64;
  // A launch of this many rows takes about as long as one of a single row.
  int64_t tile_rows = 16;
  // Larger requests are split into launches of at most chunk_rows rows and
  // chunk_multiply_adds operations (rows * n * k; 0 = no bound), which bounds
  // head-of-line blocking, but have least_chunk_rows rows or more.
  int64_t chunk_rows = 512;
  int64_t least_chunk_rows = 1;
  int64_t chunk_multiply_adds = 0;
  // No launch has more operations than that, merged or chunk, unless its first
  // request cannot be cut so finely (0 = no bound).
  int64_t launch_multiply_adds = 0;
};

struct BackendDescription {
  std::string name;     // "cpu", "cuda", "reference"
  std::string device;   // processor or GPU, as people call it
  std::string detail;   // instruction set, compute capability
  int parallelism = 1;  // threads or SMs
};

// A fault that a backend has on demand, so that tests see what follows it.
enum class BackendFault : uint8_t {
  kHang,        // batches enqueued from here on do not end
  kLoseDevice,  // failure() soon says that the device is lost
};

// Bytes, of the backend's own accounting.
struct BackendMemory {
  int64_t weights_bytes = 0;  // resident layers and layers being built
  int64_t staging_bytes = 0;  // leased and pooled
  int64_t total_bytes = 0;    // of the device
  int64_t staging_leased_bytes = 0;
  // A budget of weights that leaves room for all else; 0 = the backend knows
  // none.
  int64_t default_weights_bytes = 0;
};

class CompletionPoller;  // kernels/matrix/completion_poller.h
class KeptMemory;        // kernels/matrix/kept_memory.h
class LayerImages;       // kernels/matrix/layer_images.h
class ProgramRunner;     // kernels/programs/program_runner.h

// Thread-safe. Destroying a backend waits for every enqueued batch; builders,
// leases and weights must be gone by then.
class Backend {
 public:
  virtual ~Backend() = default;

  // An empty builder; its Begin checks the header and takes the memory.
  // Begin's errors: INVALID_ARGUMENT (shape beyond limits()),
  // UNIMPLEMENTED (no kernel for such a layer), RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<WeightsBuilder>> NewBuilder() = 0;

  // The bytes that a layer of this shape will hold, the same as its
  // resident_bytes(); 0 for a layer that Begin refuses whatever its limits.
  virtual int64_t EstimateResidentBytes(const WeightsShape& shape) const = 0;

  // Host memory for operands, possibly from a pool; contents are undefined.
  // Errors: RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<StagingLease> AcquireStaging(int64_t size_bytes) = 0;

  // Makes memory of the caller's, which starts on a page, usable for operands
  // as staging is, until the lease goes; it must stay mapped so long. Its bytes
  // may change while a batch reads them: that changes the batch's own results
  // and nothing else.
  // Errors: UNIMPLEMENTED if the backend computes in its own memory alone,
  // RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<StagingLease> LeaseHostMemory(uint8_t* /*data*/,
                                                       int64_t /*size_bytes*/) {
    return absl::UnimplementedError(
        "the backend computes in its own memory alone; cpu and cuda do not");
  }

  // The same of memory on the backend's GPU that belongs to another process:
  // the lease has addresses of the GPU, which the host must not use.
  // Errors: UNIMPLEMENTED (no such GPUs), INVALID_ARGUMENT (another GPU's,
  // smaller than that, or no such memory), RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<StagingLease> ImportDeviceMemory(
      const DeviceMemory& /*memory*/) {
    return absl::UnimplementedError(
        "the backend computes in no memory of clients' GPUs; cuda does");
  }

  // OK if the backend computes such a layer with such a signature, else
  // UNIMPLEMENTED with what it offers or INVALID_ARGUMENT. Cheap and pure.
  virtual absl::Status CheckSupport(const ResidentWeights& weights,
                                    const MatmulSignature& signature) const = 0;

  // Starts the batch and returns at once, but for its hint. Batches
  // of one thread start in order. On an error nothing was enqueued and
  // `completion` never runs. Leases behind the segments stay alive until the
  // completion runs. In steady state it does not allocate.
  // Errors: those of CheckSupport, INVALID_ARGUMENT (no rows, too many),
  // failure().
  virtual absl::Status Enqueue(GemmBatch batch, BatchCompletion completion) = 0;

  // Lets another thread end batches; null if that gains nothing. Lives as long
  // as the backend.
  virtual CompletionPoller* completions() { return nullptr; }

  // Runs programs; null if the backend does not. Lives as long as the backend.
  virtual ProgramRunner* programs() { return nullptr; }

  // Memory of layers that outlives the process; null if the backend has none,
  // or was not asked for it. Lives as long as the backend.
  virtual KeptMemory* kept_memory() { return nullptr; }

  // Copies resident layers out, and makes copies resident; null if the backend
  // cannot. Lives as long as the backend.
  virtual LayerImages* images() { return nullptr; }

  // OK while the backend can compute; else, and for ever then, UNAVAILABLE with
  // the reason. Cheap; never waits for the device.
  virtual absl::Status failure() const { return absl::OkStatus(); }

  // Count that grows, several times a second, while the backend works on the
  // oldest batch that has not ended, and stands still while that batch hangs.
  // Constant if the backend cannot tell. Cheap; never waits for the device.
  virtual uint64_t progress() const { return 0; }

  // Tells the backend that a batch of it does not end. Its threads stop waiting
  // for the device as far as they can, and it may take no more batches; the
  // completion of a batch that the device has not ended may never run, and its
  // memory may still be written. To destroy such a backend may block: the
  // process ends by _exit. Never waits for the device.
  virtual void GiveUp(const absl::Status& /*reason*/) {}

  // Errors: UNIMPLEMENTED if the backend has no such fault.
  virtual absl::Status InjectFault(BackendFault /*fault*/) {
    return absl::UnimplementedError(
        "the backend has no faults on demand; cpu and cuda have");
  }

  virtual BackendLimits limits() const = 0;
  virtual BackendDescription describe() const = 0;
  virtual BackendMemory memory() const = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_BACKEND_H_
