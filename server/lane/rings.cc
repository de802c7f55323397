// SPDX-License-Identifier: Apache-2.0
//
// Every word of shared memory is read once, into private memory, and only then
// looked at.

#include "server/lane/rings.h"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lane/doorbell.h"

namespace qgemm {
namespace {

// Wakes all that sleep on a word of shared memory: of any process.
void WakeAll(lane::SharedU32& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t Nanoseconds(absl::Duration duration) {
  return static_cast<uint64_t>(
      std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0));
}

}  // namespace

absl::StatusOr<uint32_t> RequestReader::Waiting() const {
  const uint64_t published = memory_.head().published.load();
  const uint64_t waiting = published - taken_;
  if (waiting <= memory_.layout().slots) return static_cast<uint32_t>(waiting);
  return absl::InvalidArgumentError(
      absl::StrCat("published = ", published, " after ", taken_,
                   " requests were taken, and the lane has ",
                   memory_.layout().slots, " slots"));
}

lane::RequestEntry RequestReader::Take() {
  constexpr size_t kWords = sizeof(lane::RequestEntry) / sizeof(uint64_t);
  const uint32_t place =
      static_cast<uint32_t>(taken_++) & (memory_.layout().slots - 1);
  const auto* const shared =
      reinterpret_cast<const uint64_t*>(memory_.requests() + place);
  uint64_t words[kWords];
  // Atomic loads, which no compiler repeats.
  for (size_t i = 0; i < kWords; ++i) {
    words[i] = __atomic_load_n(shared + i, __ATOMIC_RELAXED);
  }
  lane::RequestEntry entry;
  std::memcpy(&entry, words, sizeof(entry));
  return entry;
}

bool RequestReader::FallAsleep() {
  lane::SegmentHead& head = memory_.head();
  return lane::FallAsleep(head.server_sleeps,
                          [&] { return head.published.load() != taken_; });
}

void RequestReader::StayAwake() {
  lane::StayAwake(memory_.head().server_sleeps);
}

CompletionWriter::CompletionWriter(const LaneMemory* memory,
                                   FileDescriptor wake)
    : memory_(*memory),
      wake_(std::move(wake)),
      claimed_(new std::atomic<bool>[memory->layout().slots]()) {}

absl::Status CompletionWriter::Claim(uint32_t slot) {
  if (slot >= memory_.layout().slots) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot = ", slot, " and the lane has ",
                     memory_.layout().slots, " slots"));
  }
  if (claimed_[slot].exchange(true)) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot = ", slot, " has a request that is not complete"));
  }
  return absl::OkStatus();
}

// The client's lines come together: no store waits for the one before it.
bool CompletionWriter::Write(uint32_t slot, uint32_t cookie,
                             const LaneAnswer& answer) {
  const uint64_t position = completed_.fetch_add(1, std::memory_order_relaxed);
  lane::Completion& completion = memory_.completions()[slot];
  const GemmTimings& timings = answer.timings;
  completion.code = static_cast<uint32_t>(answer.status.raw_code());
  completion.queue_ns = Nanoseconds(timings.queue);
  completion.host_to_device_ns = Nanoseconds(timings.host_to_device);
  completion.kernel_ns = Nanoseconds(timings.kernel);
  completion.device_to_host_ns = Nanoseconds(timings.device_to_host);
  completion.total_ns = Nanoseconds(answer.total);
  completion.launch_rows = static_cast<uint32_t>(timings.launch_rows);
  completion.launch_requests = static_cast<uint32_t>(timings.launch_requests);
  completion.message_bytes = 0;
  if (!answer.status.ok()) {
    completion.message_bytes =
        static_cast<uint32_t>(answer.status.message().copy(
            completion.message, lane::kMaxMessageBytes));
    completion.retry_delay_ns = Nanoseconds(answer.retry_delay);
  }
  // The client may use the slot again once it sees the cookie.
  claimed_[slot].store(false, std::memory_order_release);
  completion.cookie.store(cookie, std::memory_order_release);
  const uint32_t slots = memory_.layout().slots;
  memory_.done_words()[position & (slots - 1)].store(
      lane::DoneWordOf(position, slots, slot), std::memory_order_release);
  lane::PublishFence();
  const bool client_waits =
      lane::MustWake(memory_.head().client_sleeps) && !wake_due_.exchange(true);
  return client_waits || lane::MustWake(completion.sleeps);
}

// Whoever does not sleep any more has seen the completion.
void CompletionWriter::Wake(uint32_t slot) {
  wake_due_.store(false);
  lane::Completion& completion = memory_.completions()[slot];
  if (lane::MustWake(completion.sleeps)) WakeAll(completion.cookie);
  if (lane::MustWake(memory_.head().client_sleeps)) WakeClient();
}

void CompletionWriter::End(absl::StatusCode code) {
  memory_.head().ended.store(static_cast<uint32_t>(code));
  for (uint32_t slot = 0; slot < memory_.layout().slots; ++slot) {
    lane::Completion& completion = memory_.completions()[slot];
    if (lane::MustWake(completion.sleeps)) WakeAll(completion.cookie);
  }
  WakeClient();
}

// One that does not fit is not needed: others lie unread before it.
void CompletionWriter::WakeClient() const {
  const uint64_t one = 1;
  send(wake_.get(), &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace qgemm
