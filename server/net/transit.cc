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
#include <cstdint>

namespace qgemm {
namespace {

// Bytes of all connections between two notices.
constexpr int64_t kNoticeBytes = int64_t{1} << 20;

// A poll costs some 5 us, reading and copying so much 80 us and more.
constexpr int64_t kTurnBytes = int64_t{256} << 10;

// Fewer bytes of a connection than this fill no heap: some 500 calls that are
// only their headers.
constexpr int64_t kLeastSuspectBytes = int64_t{64} << 10;

constexpr size_t kMaxDescriptors = 1 << 16;

// Counts for recvmsg, which has no object. Pages that no descriptor has touched
// take no memory.
std::array<ConnectionTransit, kMaxDescriptors> transits;
std::atomic<int64_t> received_by_all{0};
std::atomic<int> notice{-1};
std::atomic<bool> takes_turns{false};

void CountForNotice(int64_t bytes) {
  const int64_t before =
      received_by_all.fetch_add(bytes, std::memory_order_relaxed);
  if (before / kNoticeBytes == (before + bytes) / kNoticeBytes) return;
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
  cut_.store(false, std::memory_order_relaxed);
  open_.store(true, std::memory_order_relaxed);
}

bool ConnectionTransit::AddReceived(int64_t bytes) {
  if (!open_.load(std::memory_order_relaxed)) return false;
  received_.store(received_.load(std::memory_order_relaxed) + bytes,
                  std::memory_order_relaxed);
  return true;
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

std::vector<size_t> TransitGuard::Choose(
    absl::Span<ConnectionTransit* const> connections) {
  std::vector<int64_t> bytes;
  std::vector<size_t> by_bytes;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < connections.size(); ++i) {
    bytes.push_back(connections[i]->bytes());
    total_bytes += bytes[i];
    if (bytes[i] >= kLeastSuspectBytes) by_bytes.push_back(i);
  }
  if (by_bytes.empty()) return {};
  const int64_t heap_bytes = heap_bytes_();
  if (heap_bytes < max_bytes_ / 4) {
    for (ConnectionTransit* const connection : connections) {
      connection->Rebase();
    }
  }
  if (heap_bytes <= max_bytes_) return {};
  std::sort(by_bytes.begin(), by_bytes.end(), [&](size_t one, size_t other) {
    return bytes[one] > bytes[other];
  });
  size_t count = 0;
  for (int64_t sum = 0; count < by_bytes.size() && 2 * sum < total_bytes;) {
    sum += bytes[by_bytes[count++]];
  }
  by_bytes.resize(count);
  return by_bytes;
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
  if (transit->is_cut()) {
    errno = ECONNRESET;
    return -1;
  }
  if (qgemm::takes_turns.load(std::memory_order_relaxed) &&
      transit->TurnIsOver()) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t count = syscall(SYS_recvmsg, fd, message, flags);
  if (count <= 0) {
    transit->EndTurn();
  } else if (transit->AddReceived(count)) {
    qgemm::CountForNotice(count);
  }
  return count;
}
