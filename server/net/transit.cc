// SPDX-License-Identifier: Apache-2.0

#include "server/net/transit.h"

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "server/net/first_frames.h"

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

// Parts that gRPC reads into at once.
constexpr size_t kMaxParts = 64;

constexpr size_t kMaxDescriptors = 1 << 16;

// Calls that a connection may open before it acknowledges SETTINGS; then they
// say that it may have 128 (grpc_settings.cc). Connections of a thread that are
// followed until then.
constexpr int64_t kMaxFirstCalls = 256;
constexpr size_t kMaxFollowed = 4096;

// Counts for recvmsg, which has no object. Pages that no descriptor has touched
// take no memory.
std::array<ConnectionTransit, kMaxDescriptors> transits;
std::atomic<int64_t> received_by_all{0};
std::atomic<int> notice{-1};
std::atomic<bool> takes_turns{false};
// Part that this thread takes: those that poll for connections read them.
enum class Reading { kNotYet, kPolls, kNever };
thread_local Reading reading = Reading::kNotYet;

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

// Processor time of the thread that asks.
class ThreadClock final : public Clock {
 public:
  absl::Time Now() const override {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return absl::TimeFromTimespec(time);
  }
};

ReadingTurns& TurnsOfThread() {
  static const SteadyClock clock;
  static const ThreadClock run_clock;
  static thread_local ReadingTurns turns(&clock, &run_clock);
  return turns;
}

// First frames of the thread's connections, until they acknowledge SETTINGS.
absl::flat_hash_map<uint64_t, FirstFrames>& FirstFramesOfThread() {
  static thread_local absl::flat_hash_map<uint64_t, FirstFrames> frames;
  return frames;
}

// Follows the connection's first bytes, and cuts it if it opens too many calls.
// Connections whose beginning is forgotten are not followed.
void FollowFirst(ConnectionTransit* transit, const msghdr& message,
                 ssize_t count) {
  auto& all = FirstFramesOfThread();
  if (all.size() > kMaxFollowed) all.clear();
  const uint64_t connection = transit->reader().connection;
  const auto [found, is_new] = all.try_emplace(connection);
  FirstFrames& frames = found->second;
  auto left = static_cast<size_t>(count);
  for (const iovec* part = message.msg_iov; left > 0; ++part) {
    const size_t bytes = std::min(left, part->iov_len);
    frames.Add({static_cast<const char*>(part->iov_base), bytes});
    left -= bytes;
  }
  if (frames.calls() > kMaxFirstCalls) transit->Cut();
  if (frames.acknowledged() || transit->is_cut() ||
      (is_new && transit->has_received())) {
    transit->Settle();
    all.erase(found);
  }
}

void BeginRound() {
  if (reading == Reading::kNever) return;
  reading = Reading::kPolls;
  TurnsOfThread().BeginRound();
}

// recvmsg into the first `bytes` of the message's parts.
ssize_t ReceiveUpTo(int64_t bytes, int fd, msghdr* message, int flags) {
  if (message->msg_iovlen > kMaxParts) {
    return syscall(SYS_recvmsg, fd, message, flags);
  }
  std::array<iovec, kMaxParts> parts;
  size_t count = 0;
  for (; count < message->msg_iovlen && bytes > 0; ++count) {
    parts[count] = message->msg_iov[count];
    parts[count].iov_len =
        std::min(parts[count].iov_len, static_cast<size_t>(bytes));
    bytes -= static_cast<int64_t>(parts[count].iov_len);
  }
  msghdr shorter = *message;
  shorter.msg_iov = parts.data();
  shorter.msg_iovlen = count;
  const ssize_t received = syscall(SYS_recvmsg, fd, &shorter, flags);
  message->msg_namelen = shorter.msg_namelen;
  message->msg_controllen = shorter.msg_controllen;
  message->msg_flags = shorter.msg_flags;
  return received;
}

// Fails, unless gRPC has closed the connection and its number is another
// file's.
ssize_t Refuse(int error, ConnectionTransit* transit, int fd, msghdr* message,
               int flags) {
  struct stat status;
  if (fstat(fd, &status) == 0 && status.st_ino != transit->inode()) {
    transit->End();
    return syscall(SYS_recvmsg, fd, message, flags);
  }
  errno = error;
  return -1;
}

// True if the connection may be torn down here and now.
bool MayEnd(const ConnectionTransit& transit) {
  return reading == Reading::kPolls &&
         TurnsOfThread().AllowEnd(transit.reader());
}

// Reads a connection when it is its turn, on a thread that polls. gRPC reads on
// others too, which have no rounds.
ssize_t ReceiveInTurn(ConnectionTransit* transit, int fd, msghdr* message,
                      int flags) {
  ReadingTurns& turns = TurnsOfThread();
  const Reader reader = transit->reader();
  if (reading != Reading::kPolls) {
    return Refuse(EAGAIN, transit, fd, message, flags);
  }
  if (transit->is_cut()) {
    const int error = MayEnd(*transit) ? ECONNRESET : EAGAIN;
    return Refuse(error, transit, fd, message, flags);
  }
  const int64_t allowed_bytes = turns.Allow(reader);
  if (allowed_bytes == 0) return Refuse(EAGAIN, transit, fd, message, flags);
  const ssize_t count = ReceiveUpTo(allowed_bytes, fd, message, flags);
  if (count > 0) {
    turns.Add(reader, count);
    if (!transit->is_settled()) FollowFirst(transit, *message, count);
    return count;
  }
  const bool ends = count == 0 || errno != EAGAIN;
  if (ends && !MayEnd(*transit)) {
    errno = EAGAIN;
    return -1;
  }
  if (ends) FirstFramesOfThread().erase(reader.connection);
  return count;
}

}  // namespace

void ConnectionTransit::Begin(Reader reader, ino_t inode) {
  connection_.store(reader.connection, std::memory_order_relaxed);
  client_.store(reader.client, std::memory_order_relaxed);
  inode_.store(inode, std::memory_order_relaxed);
  received_.store(0, std::memory_order_relaxed);
  delivered_.store(0, std::memory_order_relaxed);
  messages_.store(0, std::memory_order_relaxed);
  base_ = 0;
  base_messages_ = 0;
  cut_.store(false, std::memory_order_relaxed);
  settled_.store(false, std::memory_order_relaxed);
  open_.store(true, std::memory_order_relaxed);
}

void ConnectionTransit::AddReceived(int64_t bytes) {
  received_.store(received_.load(std::memory_order_relaxed) + bytes,
                  std::memory_order_relaxed);
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

void SetTransitNotice(int event_fd) {
  notice.store(event_fd, std::memory_order_relaxed);
}

void TakeTurnsInReading(bool turns) {
  takes_turns.store(turns, std::memory_order_relaxed);
}

void ReadNothingOnThisThread() { reading = Reading::kNever; }

std::vector<size_t> TransitGuard::Choose(
    absl::Span<ConnectionTransit* const> connections, bool ending) {
  int64_t all_bytes = 0;
  for (const ConnectionTransit* const connection : connections) {
    all_bytes += connection->bytes();
  }
  if (all_bytes < kLeastTotalBytes) return {};
  const int64_t heap_bytes = heap_bytes_();
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
  return static_cast<int64_t>(mallinfo2().uordblks);
}

}  // namespace qgemm

// A program's own definition of a function of the C library comes before the
// library's, for its shared libraries too.
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(
    int fd, msghdr* message, int flags) {
  qgemm::ConnectionTransit* const transit = qgemm::TransitOf(fd);
  if (transit == nullptr || !transit->is_open()) {
    return syscall(SYS_recvmsg, fd, message, flags);
  }
  ssize_t count = -1;
  if (qgemm::takes_turns.load(std::memory_order_relaxed)) {
    count = qgemm::ReceiveInTurn(transit, fd, message, flags);
  } else if (transit->is_cut()) {
    return qgemm::Refuse(ECONNRESET, transit, fd, message, flags);
  } else {
    count = syscall(SYS_recvmsg, fd, message, flags);
  }
  if (count > 0) {
    transit->AddReceived(count);
    qgemm::CountForNotice(count);
  }
  return count;
}

// A connection that has ended is torn down by a write too.
extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(
    int fd, const msghdr* message, int flags) {
  const ssize_t count = syscall(SYS_sendmsg, fd, message, flags);
  if (count >= 0 || errno == EAGAIN || errno == EINTR) return count;
  const qgemm::ConnectionTransit* const transit = qgemm::TransitOf(fd);
  const int error = errno;
  const bool waits = transit != nullptr && transit->is_open() &&
                     qgemm::takes_turns.load(std::memory_order_relaxed) &&
                     !qgemm::MayEnd(*transit);
  errno = waits ? EAGAIN : error;
  return -1;
}

// A thread sees to its connections between two of these.
extern "C" __attribute__((visibility("default"))) int poll(pollfd* descriptors,
                                                           nfds_t count,
                                                           int timeout_ms) {
  timespec timeout;
  timeout.tv_sec = timeout_ms / 1000;
  timeout.tv_nsec = timeout_ms % 1000 * 1000000L;
  const int ready =
      ppoll(descriptors, count, timeout_ms < 0 ? nullptr : &timeout, nullptr);
  if (qgemm::takes_turns.load(std::memory_order_relaxed)) {
    const int error = errno;
    qgemm::BeginRound();
    errno = error;
  }
  return ready;
}
