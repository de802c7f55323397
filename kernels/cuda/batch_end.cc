// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/batch_end.h"

#include <sys/prctl.h>

#include <new>
#include <thread>

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// Looks at the stamps between two looks at the stream: some 20 us.
constexpr int kLooks = 1024;
// The same for a batch without stamps, as a pause of some 2 us: it is the
// stream that says when it has ended.
constexpr int kLooksWithoutStamps = 128;
// Looks at the stamps between two looks at the stream, of a thread that has
// other work between them.
constexpr int kSparseLooks = 64;

// A thread awakes from a sleep so short some microseconds late.
constexpr auto kLeastSleep = std::chrono::microseconds(15);

// Timers of this thread wait for no others.
void WakeUpOnTime() {
  thread_local const int set = prctl(PR_SET_TIMERSLACK, 1);
  (void)set;
}

absl::Duration Nanos(uint64_t begin, uint64_t end) {
  return end > begin ? absl::Nanoseconds(end - begin) : absl::ZeroDuration();
}

}  // namespace

absl::StatusOr<BatchEnd> BatchEnd::Create(cudaStream_t stream) {
  ASSIGN_OR_RETURN(DeviceBuffer progress,
                   DeviceBuffer::Allocate(sizeof(BatchProgress)));
  ASSIGN_OR_RETURN(PinnedBuffer stamps,
                   PinnedBuffer::Allocate(sizeof(BatchStamps)));
  new (stamps.data()) BatchStamps();
  RETURN_IF_ERROR(ToStatus(
      cudaMemsetAsync(progress.data(), 0, sizeof(BatchProgress), stream),
      "zero the progress of batches"));
  BatchEnd end(stream, std::move(progress), std::move(stamps));
  RETURN_IF_ERROR(end.Synchronize());
  return end;
}

void BatchEnd::Begin() {
  marked_ = 0;
  has_stamps_ = false;
  estimate_ = nullptr;
  end_stream_ = stream_;
  begin_ = std::chrono::steady_clock::now();
}

absl::Status BatchEnd::Mark() {
  if (marked_ == marks_.size()) {
    ASSIGN_OR_RETURN(Event mark, Event::Create());
    marks_.push_back(std::move(mark));
  }
  return marks_[marked_++].Record(stream_);
}

bool BatchEnd::IsStamped() const {
  // Written by the GPU: no std::atomic, but read like one.
  return has_stamps_ &&
         __atomic_load_n(&stamps()->sequence, __ATOMIC_ACQUIRE) == sequence_;
}

ObservedWait BatchEnd::Sleep() const {
  using std::chrono::steady_clock;
  ObservedWait wait;
  const absl::Duration until = estimate_->sleep_until();
  const auto awake_at = begin_ + absl::ToChronoNanoseconds(until);
  if (steady_clock::now() + kLeastSleep > awake_at) return wait;
  WakeUpOnTime();
  std::this_thread::sleep_until(awake_at);
  wait.slept_until = until;
  wait.awake = absl::FromChrono(steady_clock::now() - begin_);
  wait.ended_asleep = IsStamped();
  return wait;
}

WaitEnd BatchEnd::SpinUntilDone(absl::Duration limit,
                                const std::atomic<bool>& given_up) {
  if (estimate_ == nullptr) return Look(limit, given_up);
  ObservedWait wait = Sleep();
  const WaitEnd end = Look(limit, given_up);
  if (end == WaitEnd::kDone) {
    wait.ended = absl::FromChrono(std::chrono::steady_clock::now() - begin_);
    estimate_->Observe(wait);
  }
  return end;
}

// The stamps come before the stream says that it is done.
WaitEnd BatchEnd::Look(absl::Duration limit,
                       const std::atomic<bool>& given_up) const {
  const auto start = std::chrono::steady_clock::now();
  const int looks = has_stamps_ ? kLooks : kLooksWithoutStamps;
  for (;;) {
    for (int i = 0; i < looks; ++i) {
      if (IsStamped()) return WaitEnd::kDone;
    }
    if (cudaStreamQuery(end_stream_) != cudaErrorNotReady)
      return WaitEnd::kDone;
    if (given_up.load(std::memory_order_relaxed)) return WaitEnd::kGivenUp;
    const auto waited = std::chrono::steady_clock::now() - start;
    if (absl::FromChrono(waited) > limit) return WaitEnd::kTimedOut;
    std::this_thread::yield();
  }
}

bool BatchEnd::LookIfDone() {
  if (IsStamped()) return true;
  if (++looks_ % kSparseLooks != 0) return false;
  return cudaStreamQuery(end_stream_) != cudaErrorNotReady;
}

absl::Status BatchEnd::Synchronize() const {
  return ToStatus(cudaStreamSynchronize(end_stream_), "wait for a stream");
}

absl::Status BatchEnd::WaitForStamps() const {
  if (IsStamped()) return absl::OkStatus();
  RETURN_IF_ERROR(Synchronize());
  if (IsStamped()) return absl::OkStatus();
  return absl::InternalError("cuda backend: a batch ended without stamps");
}

BatchTimings BatchEnd::StampedTimings() const {
  const BatchStamps& written = *stamps();
  BatchTimings timings;
  timings.host_to_device = Nanos(written.gather_begin, written.gather_end);
  timings.kernel = Nanos(written.gather_end, written.scatter_begin);
  timings.device_to_host = Nanos(written.scatter_begin, written.scatter_end);
  return timings;
}

absl::StatusOr<BatchTimings> BatchEnd::Wait() {
  if (has_stamps_) {
    RETURN_IF_ERROR(WaitForStamps());
    return StampedTimings();
  }
  RETURN_IF_ERROR(Synchronize());
  BatchTimings timings;
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

}  // namespace qgemm::cuda
