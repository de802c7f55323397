// SPDX-License-Identifier: Apache-2.0
//
// Messages and calls that have come in part. gRPC counts what it holds of them
// for the whole server only, and closes whichever connections are idle when
// that is too much; here bytes are counted by connection, so that those that
// brought most can be closed before
// (docs/decisions/0020-messages-in-transit.md).

#ifndef QGEMM_SERVER_NET_TRANSIT_H_
#define QGEMM_SERVER_NET_TRANSIT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace qgemm {

// Bytes of one connection. Lives as its descriptor's number does, for ever.
// Begin, End, Cut and Rebase are one thread's, AddReceived and EndsTurn the
// reader's; all may run at one time.
class alignas(64) ConnectionTransit {
 public:
  // From here to End the descriptor is a connection's.
  void Begin();
  void End() { open_.store(false, std::memory_order_relaxed); }

  // Reads nothing more: not what lies in the socket either.
  void Cut() { cut_.store(true, std::memory_order_relaxed); }
  bool is_cut() const {
    return open_.load(std::memory_order_relaxed) &&
           cut_.load(std::memory_order_relaxed);
  }

  // Counts bytes read from the socket; false if it is no connection. A turn
  // ends when there is no more to read for now.
  bool AddReceived(int64_t bytes);
  void EndTurn();

  // True, and a new turn begins, if the reader should see to other connections
  // first: it has read 256 KiB in this turn.
  bool TurnIsOver();

  // Counts a message that has come whole.
  void AddDelivered(int64_t bytes) {
    delivered_.fetch_add(bytes, std::memory_order_relaxed);
  }

  // Bytes since the last Rebase that were in no whole message: of messages in
  // part, and of headers and frames.
  int64_t bytes() const;

  // Says that what came until now is held no more.
  void Rebase() { base_ = Difference(); }

 private:
  int64_t Difference() const {
    return received_.load(std::memory_order_relaxed) -
           delivered_.load(std::memory_order_relaxed);
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> cut_{false};
  std::atomic<int64_t> received_{0};
  std::atomic<int64_t> turn_start_{0};  // received_ when the turn began
  std::atomic<int64_t> delivered_{0};
  int64_t base_ = 0;
};

// The counts of a descriptor of this process; null beyond the first 65,536,
// whose bytes are not counted.
//
// This library defines recvmsg, which gRPC reads sockets by, to count what it
// returns for the connections that have begun.
ConnectionTransit* TransitOf(int fd);

// An eventfd that is written to whenever connections have brought a MiB; -1:
// none. For the whole process, as recvmsg is: the latest counts.
void SetTransitNotice(int event_fd);

// Makes recvmsg say, after 256 KiB of one connection, that there is no more for
// now, though there may be: gRPC reads on as long as there is more, and others
// of the same thread wait. Only where it polls by level (GRPC_POLL_STRATEGY
// poll): an edge would be missed.
void TakeTurnsInReading(bool turns);

// Chooses which connections must go. Used by one thread at a time.
class TransitGuard {
 public:
  // `heap_bytes` tells what is allocated of the process's heap, where gRPC's
  // buffers and calls are; it may take a millisecond.
  TransitGuard(int64_t max_bytes, std::function<int64_t()> heap_bytes)
      : max_bytes_(max_bytes), heap_bytes_(std::move(heap_bytes)) {}

  // The connections that have brought most of what is in no message, half of it
  // together, if the heap is beyond the limit; else none. A call that is only
  // its headers costs gRPC a hundred times their bytes. Counts also grow by
  // what was let go: whenever the heap is small, all are rebased.
  std::vector<size_t> Choose(absl::Span<ConnectionTransit* const> connections);

 private:
  const int64_t max_bytes_;
  const std::function<int64_t()> heap_bytes_;
};

// Allocated bytes of glibc's heap, without large blocks of their own mapping.
// 0 under AddressSanitizer and ThreadSanitizer.
int64_t AllocatedHeapBytes();

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_TRANSIT_H_
