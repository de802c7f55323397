// SPDX-License-Identifier: Apache-2.0
//
// Messages and calls that have come in part. gRPC counts what it holds of them
// for the whole server only, and closes whichever connections are idle when
// that is too much; here bytes are counted by connection, so that those that
// brought most can be closed before
// (docs/decisions/0020-messages-in-transit.md).

#ifndef QGEMM_SERVER_NET_TRANSIT_H_
#define QGEMM_SERVER_NET_TRANSIT_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/net/client_frames.h"
#include "server/net/reading_turns.h"

namespace qgemm {

// Form in which a connection's bytes come.
enum class Wire : uint8_t { kPlain, kTls };

// Bytes of one connection. Lives as its descriptor's number does, for ever.
// Begin, End and Rebase are one thread's, Follow and AddReceived the reader's;
// all may run at one time. All zero at first: thousands that no descriptor has
// touched take no memory.
class alignas(64) ConnectionTransit {
 public:
  // From here to End the descriptor, of which this is the inode, is a
  // connection's.
  void Begin(Reader reader, ino_t inode, Wire wire = Wire::kPlain);
  void End() { open_.store(false, std::memory_order_relaxed); }
  bool is_open() const { return open_.load(std::memory_order_relaxed); }

  Reader reader() const {
    return {connection_.load(std::memory_order_relaxed),
            client_.load(std::memory_order_relaxed)};
  }
  ino_t inode() const { return inode_.load(std::memory_order_relaxed); }

  // Reads nothing more: not what lies in the socket either.
  void Cut() { cut_.store(true, std::memory_order_relaxed); }
  bool is_cut() const { return cut_.load(std::memory_order_relaxed); }

  // Follows the next bytes, read at `now` by SteadyClock: they may cut the
  // connection, or pause it (client_frames.h). Of bytes under TLS, in which no
  // frames are to be seen, those are not counted that the cipher has added.
  void Follow(absl::string_view bytes, absl::Time now);

  // Until then, by SteadyClock, nothing more should be read.
  absl::Time paused_until() const {
    return absl::FromUnixNanos(paused_until_.load(std::memory_order_relaxed));
  }

  // Counts bytes read from the socket.
  void AddReceived(int64_t bytes);

  // Counts a message that has come whole.
  void AddDelivered(int64_t bytes) {
    delivered_.fetch_add(bytes, std::memory_order_relaxed);
    messages_.fetch_add(1, std::memory_order_relaxed);
  }

  // Bytes since the last Rebase that were in no whole message: of messages in
  // part, and of headers and frames.
  int64_t bytes() const;

  // Those less 256 for each message that has come: the headers of an honest
  // client's calls, which are not held any more.
  int64_t unexplained_bytes() const;

  // Says that what came until now is held no more.
  void Rebase();

 private:
  int64_t Difference() const {
    return received_.load(std::memory_order_relaxed) -
           delivered_.load(std::memory_order_relaxed);
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> cut_{false};
  std::atomic<Wire> wire_{Wire::kPlain};
  std::atomic<uint64_t> connection_{0};
  std::atomic<uint64_t> client_{0};
  std::atomic<ino_t> inode_{0};
  std::atomic<int64_t> received_{0};
  std::atomic<int64_t> delivered_{0};
  std::atomic<int64_t> messages_{0};
  std::atomic<int64_t> paused_until_{0};  // nanoseconds
  int64_t base_ = 0;
  int64_t base_messages_ = 0;
  Mutex frames_mutex_;
  ClientFrames frames_ ABSL_GUARDED_BY(frames_mutex_);
  TlsRecords records_ ABSL_GUARDED_BY(frames_mutex_);
};

// The counts of a descriptor of this process; null beyond the first 65,536,
// whose bytes are not counted.
ConnectionTransit* TransitOf(int fd);

// From then on no connection is paused, as far as is known.
absl::Time ConnectionsPausedUntil();

// An eventfd that is written to whenever connections have brought 64 KiB; -1:
// none. For the whole process, as recvmsg is: the latest counts.
void SetTransitNotice(int event_fd);

// Chooses which connections must go. Used by one thread at a time.
class TransitGuard {
 public:
  // `heap_bytes` tells what is allocated of the process's heap, where gRPC's
  // buffers and calls are; it may take a millisecond. What is there already is
  // no connection's (a GPU's driver has hundreds of MiB), and does not count.
  TransitGuard(int64_t max_bytes, std::function<int64_t()> heap_bytes)
      : max_bytes_(max_bytes),
        heap_bytes_(std::move(heap_bytes)),
        bytes_before_(heap_bytes_()) {}

  // True if the heap was beyond a quarter of the limit at the last look.
  bool is_pressed() const { return is_pressed_; }

  // The connections that have brought most of what is in no message, half of it
  // together, if the heap is beyond the limit; else none. A call that is only
  // its headers costs gRPC a hundred times their bytes. Honest clients' headers
  // do not count before the heap is at half as much again. Counts also grow by
  // what was let go: whenever the heap is small, all are rebased. `ending`:
  // some that were chosen before have not ended yet; then none, unless the heap
  // grows.
  std::vector<size_t> Choose(absl::Span<ConnectionTransit* const> connections,
                             bool ending);

 private:
  const int64_t max_bytes_;
  const std::function<int64_t()> heap_bytes_;
  const int64_t bytes_before_;
  int64_t chosen_at_bytes_ = 0;
  bool is_pressed_ = false;
};

// Allocated bytes of glibc's heap, without large blocks of their own mapping
// and those that have bounds of their own (heap_share.h). 0 or less under
// AddressSanitizer and ThreadSanitizer.
int64_t AllocatedHeapBytes();

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_TRANSIT_H_
