// SPDX-License-Identifier: Apache-2.0

#include "server/net/transit.h"

#include <malloc.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace qgemm {
namespace {

// Bytes of one connection between two notices.
constexpr int64_t kNoticeBytes = int64_t{16} << 20;

// A poll costs some 5 us, reading and copying so much 100 us and more.
constexpr int64_t kTurnBytes = int64_t{1} << 20;

constexpr size_t kMaxDescriptors = 1 << 16;

// Counts for recvmsg, which has no object. Pages that no descriptor has touched
// take no memory.
std::array<ConnectionTransit, kMaxDescriptors> transits;
std::atomic<int> notice{-1};
std::atomic<bool> takes_turns{false};

void Notify() {
  const int event_fd = notice.load(std::memory_order_relaxed);
  if (event_fd < 0) return;
  const uint64_t one = 1;
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof(one));
  errno = error;
}

}  // namespace

void ConnectionTransit::Begin() {
  received_.store(0, std::memory_order_relaxed);
  turn_start_.store(0, std::memory_order_relaxed);
  delivered_.store(0, std::memory_order_relaxed);
  base_ = 0;
  open_.store(true, std::memory_order_relaxed);
}

bool ConnectionTransit::AddReceived(int64_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return false;
  const int64_t before = received_.load(std::memory_order_relaxed);
  received_.store(before + bytes, std::memory_order_relaxed);
  return before / kNoticeBytes != (before + bytes) / kNoticeBytes;
}

void ConnectionTransit::EndTurn() {
  turn_start_.store(received_.load(std::memory_order_relaxed),
                    std::memory_order_relaxed);
}

bool ConnectionTransit::TurnIsOver() {
  const bool is_over = open_.load(std::memory_order_relaxed) &&
                       received_.load(std::memory_order_relaxed) -
                               turn_start_.load(std::memory_order_relaxed) >=
                           kTurnBytes;
  if (is_over) EndTurn();
  return is_over;
}

int64_t ConnectionTransit::bytes() const {
  return std::max<int64_t>(0, Difference() - base_);
}

ConnectionTransit* TransitOf(int fd) {
  if (fd < 0 || static_cast<size_t>(fd) >= kMaxDescriptors) return nullptr;
  return &transits[fd];
}

void SetTransitNotice(int event_fd) {
  notice.store(event_fd, std::memory_order_relaxed);
}

void TakeTurnsInReading(bool turns) {
  takes_turns.store(turns, std::memory_order_relaxed);
}

int TransitGuard::Choose(absl::Span<ConnectionTransit* const> connections) {
  int64_t held_bytes = 0;
  int heaviest = -1;
  for (size_t i = 0; i < connections.size(); ++i) {
    const int64_t bytes = connections[i]->bytes();
    held_bytes += bytes;
    if (heaviest < 0 || bytes > connections[heaviest]->bytes()) {
      heaviest = static_cast<int>(i);
    }
  }
  if (held_bytes <= max_bytes_ / 2) return -1;
  const int64_t heap_bytes = heap_bytes_();
  if (heap_bytes < max_bytes_ / 4) {
    for (ConnectionTransit* const connection : connections) {
      connection->Rebase();
    }
    return -1;
  }
  return held_bytes > max_bytes_ && heap_bytes > max_bytes_ / 2 ? heaviest : -1;
}

int64_t AllocatedHeapBytes() {
  return static_cast<int64_t>(mallinfo2().uordblks);
}

}  // namespace qgemm

// A program's own definition of a function of the C library comes before the
// library's, for its shared libraries too.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(
    int fd, msghdr* message, int flags) {
  qgemm::ConnectionTransit* const transit = qgemm::TransitOf(fd);
  if (transit == nullptr) return syscall(SYS_recvmsg, fd, message, flags);
  if (qgemm::takes_turns.load(std::memory_order_relaxed) &&
      transit->TurnIsOver()) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t count = syscall(SYS_recvmsg, fd, message, flags);
  if (count <= 0) {
    transit->EndTurn();
  } else if (transit->AddReceived(count)) {
    qgemm::Notify();
  }
  return count;
}
