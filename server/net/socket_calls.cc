// SPDX-License-Identifier: Apache-2.0

#include "server/net/socket_calls.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "server/net/reading_turns.h"
#include "server/net/transit.h"

namespace qgemm {
namespace {

// Parts that gRPC reads into at once.
constexpr size_t kMaxParts = 64;

std::atomic<bool> takes_turns{false};
// Part that this thread takes: those that poll for connections read them.
enum class Reading { kNotYet, kPolls, kNever };
thread_local Reading reading = Reading::kNotYet;

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

void BeginRound() {
  if (reading == Reading::kNever) return;
  reading = Reading::kPolls;
  TurnsOfThread().BeginRound();
}

// True if the connection may be torn down here and now.
bool MayEnd(const ConnectionTransit& transit) {
  return reading == Reading::kPolls &&
         TurnsOfThread().AllowEnd(transit.reader());
}

bool IsPaused(const ConnectionTransit& transit, absl::Time now) {
  return !transit.is_cut() && transit.paused_until() > now;
}

bool IsPaused(const ConnectionTransit& transit) {
  return transit.paused_until() > absl::UnixEpoch() &&
         IsPaused(transit, SteadyClock().Now());
}

// Takes descriptors of paused connections out of what is polled, and puts them
// back at its end.
class PausedLeftOut {
 public:
  explicit PausedLeftOut(absl::Span<pollfd> polled) : polled_(polled) {
    const absl::Time now = SteadyClock().Now();
    if (ConnectionsPausedUntil() <= now) return;
    for (size_t i = 0; i < polled.size(); ++i) {
      const ConnectionTransit* const transit = TransitOf(polled[i].fd);
      if (transit == nullptr || !transit->is_open()) continue;
      if (!IsPaused(*transit, now)) continue;
      polled[i].fd = ~polled[i].fd;
      left_out_.push_back(i);
      least_pause_ = std::min(least_pause_, transit->paused_until() - now);
    }
  }
  PausedLeftOut(const PausedLeftOut&) = delete;
  PausedLeftOut& operator=(const PausedLeftOut&) = delete;
  ~PausedLeftOut() {
    for (const size_t i : left_out_) polled_[i].fd = ~polled_[i].fd;
  }

  // Time until the first of them goes on.
  absl::Duration least_pause() const { return least_pause_; }

 private:
  const absl::Span<pollfd> polled_;
  std::vector<size_t> left_out_;
  absl::Duration least_pause_ = absl::InfiniteDuration();
};

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

// Follows the bytes that recvmsg has put into the message's parts.
void Follow(const msghdr& message, ssize_t count, ConnectionTransit* transit) {
  const absl::Time now = SteadyClock().Now();
  auto left = static_cast<size_t>(count);
  for (const iovec* part = message.msg_iov; left > 0; ++part) {
    const size_t bytes = std::min(left, part->iov_len);
    transit->Follow({static_cast<const char*>(part->iov_base), bytes}, now);
    left -= bytes;
  }
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

// Reads a connection when it is its turn, on a thread that polls. gRPC reads on
// others too, which have no rounds.
ssize_t ReceiveInTurn(ConnectionTransit* transit, int fd, msghdr* message,
                      int flags) {
  if (reading != Reading::kPolls || IsPaused(*transit)) {
    return Refuse(EAGAIN, transit, fd, message, flags);
  }
  if (transit->is_cut()) {
    const int error = MayEnd(*transit) ? ECONNRESET : EAGAIN;
    return Refuse(error, transit, fd, message, flags);
  }
  ReadingTurns& turns = TurnsOfThread();
  const Reader reader = transit->reader();
  const int64_t allowed_bytes = turns.Allow(reader);
  if (allowed_bytes == 0) return Refuse(EAGAIN, transit, fd, message, flags);
  const ssize_t count = ReceiveUpTo(allowed_bytes, fd, message, flags);
  if (count > 0) {
    turns.Add(reader, count);
    Follow(*message, count, transit);
    return count;
  }
  const bool ends = count == 0 || errno != EAGAIN;
  if (!ends || MayEnd(*transit)) return count;
  errno = EAGAIN;
  return -1;
}

}  // namespace

void TakeTurnsInReading(bool turns) {
  takes_turns.store(turns, std::memory_order_relaxed);
}

void ReadNothingOnThisThread() { reading = Reading::kNever; }

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
    if (count > 0) qgemm::Follow(*message, count, transit);
  }
  if (count > 0) transit->AddReceived(count);
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
  const qgemm::PausedLeftOut paused(absl::MakeSpan(descriptors, count));
  const absl::Duration timeout =
      std::min(timeout_ms < 0 ? absl::InfiniteDuration()
                              : absl::Milliseconds(timeout_ms),
               paused.least_pause());
  const bool ends = timeout < absl::InfiniteDuration();
  const timespec limit = absl::ToTimespec(timeout);
  const int ready = ppoll(descriptors, count, ends ? &limit : nullptr, nullptr);
  if (qgemm::takes_turns.load(std::memory_order_relaxed)) {
    const int error = errno;
    qgemm::BeginRound();
    errno = error;
  }
  return ready;
}
