// SPDX-License-Identifier: Apache-2.0

#include "server/net/transit.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>

#include "base/heap_share.h"

namespace qgemm {
namespace {

// Bytes of all connections between two notices: some 3000 calls that are only
// their headers.
constexpr int64_t kNoticeBytes = int64_t{64} << 10;

// Headers and frames of a call, with some metadata.
constexpr int64_t kMessageHeaderBytes = 256;

// Fewer bytes than this, of one connection and of all, fill no heap.
constexpr int64_t kLeastSuspectBytes = int64_t{1} << 10;
constexpr int64_t kLeastTotalBytes = int64_t{64} << 10;

constexpr size_t kMaxDescriptors = 1 << 16;

// Counts for recvmsg, which has no object. Pages that no descriptor has touched
// take no memory.
std::array<ConnectionTransit, kMaxDescriptors> transits;
std::atomic<int64_t> received_by_all{0};
std::atomic<int> notice{-1};
std::atomic<int64_t> latest_pause{0};  // its end, in nanoseconds

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

absl::Time AddResets(uint64_t client, int64_t resets, absl::Time now) {
  static Mutex mutex;
  static auto& allowances = *new ResetAllowances;
  const MutexLock lock(&mutex);
  return allowances.Add(client, resets, now);
}

// The indices of the greatest, which together are half of all.
std::vector<size_t> Heaviest(const std::vector<int64_t>& bytes) {
  std::vector<size_t> by_bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] >= kLeastSuspectBytes) by_bytes.push_back(i);
  }
  std::sort(by_bytes.begin(), by_bytes.end(), [&](size_t one, size_t other) {
    return bytes[one] > bytes[other];
  });
  const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  size_t count = 0;
  for (int64_t sum = 0; count < by_bytes.size() && 2 * sum < total;) {
    sum += bytes[by_bytes[count++]];
  }
  by_bytes.resize(count);
  return by_bytes;
}

}  // namespace

void ConnectionTransit::Begin(Reader reader, ino_t inode, Wire wire) {
  connection_.store(reader.connection, std::memory_order_relaxed);
  client_.store(reader.client, std::memory_order_relaxed);
  inode_.store(inode, std::memory_order_relaxed);
  received_.store(0, std::memory_order_relaxed);
  delivered_.store(0, std::memory_order_relaxed);
  messages_.store(0, std::memory_order_relaxed);
  base_ = 0;
  base_messages_ = 0;
  cut_.store(false, std::memory_order_relaxed);
  wire_.store(wire, std::memory_order_relaxed);
  paused_until_.store(0, std::memory_order_relaxed);
  {
    const MutexLock lock(&frames_mutex_);
    frames_ = ClientFrames();
    records_ = TlsRecords();
  }
  open_.store(true, std::memory_order_relaxed);
}

void ConnectionTransit::Follow(absl::string_view bytes, absl::Time now) {
  int64_t resets = 0;
  {
    const MutexLock lock(&frames_mutex_);
    if (wire_.load(std::memory_order_relaxed) == Wire::kTls) {
      received_.store(
          received_.load(std::memory_order_relaxed) - records_.Add(bytes),
          std::memory_order_relaxed);
      return;
    }
    frames_.Add(bytes, now);
    if (frames_.must_end()) Cut();
    resets = frames_.TakeYoungResets();
  }
  if (resets == 0) return;
  const int64_t until =
      absl::ToUnixNanos(AddResets(reader().client, resets, now));
  paused_until_.store(until, std::memory_order_relaxed);
  int64_t latest = latest_pause.load(std::memory_order_relaxed);
  while (latest < until && !latest_pause.compare_exchange_weak(
                               latest, until, std::memory_order_relaxed)) {
  }
}

void ConnectionTransit::AddReceived(int64_t bytes) {
  received_.store(received_.load(std::memory_order_relaxed) + bytes,
                  std::memory_order_relaxed);
  CountForNotice(bytes);
}

int64_t ConnectionTransit::bytes() const {
  return std::max<int64_t>(0, Difference() - base_);
}

int64_t ConnectionTransit::unexplained_bytes() const {
  const int64_t messages =
      messages_.load(std::memory_order_relaxed) - base_messages_;
  return std::max<int64_t>(0, bytes() - messages * kMessageHeaderBytes);
}

void ConnectionTransit::Rebase() {
  base_ = Difference();
  base_messages_ = messages_.load(std::memory_order_relaxed);
}

ConnectionTransit* TransitOf(int fd) {
  if (fd < 0 || static_cast<size_t>(fd) >= kMaxDescriptors) return nullptr;
  return &transits[fd];
}

absl::Time ConnectionsPausedUntil() {
  return absl::FromUnixNanos(latest_pause.load(std::memory_order_relaxed));
}

void SetTransitNotice(int event_fd) {
  notice.store(event_fd, std::memory_order_relaxed);
}

std::vector<size_t> TransitGuard::Choose(
    absl::Span<ConnectionTransit* const> connections, bool ending) {
  int64_t all_bytes = 0;
  for (const ConnectionTransit* const connection : connections) {
    all_bytes += connection->bytes();
  }
  if (all_bytes < kLeastTotalBytes) return {};
  const int64_t heap_bytes = heap_bytes_() - bytes_before_;
  is_pressed_ = heap_bytes >= max_bytes_ / 4;
  if (!is_pressed_) {
    for (ConnectionTransit* const connection : connections) {
      connection->Rebase();
    }
  }
  if (heap_bytes <= max_bytes_) return {};
  if (ending && heap_bytes <= chosen_at_bytes_) return {};
  chosen_at_bytes_ = heap_bytes;
  std::vector<int64_t> bytes;
  for (const ConnectionTransit* const connection : connections) {
    bytes.push_back(heap_bytes <= max_bytes_ + max_bytes_ / 2
                        ? connection->unexplained_bytes()
                        : connection->bytes());
  }
  return Heaviest(bytes);
}

int64_t AllocatedHeapBytes() {
  return static_cast<int64_t>(mallinfo2().uordblks) - HeapShare::TotalBytes();
}

}  // namespace qgemm
