// SPDX-License-Identifier: Apache-2.0
//
// Requests that may share a launch, in the order in which they join one: by
// deficit round robin over identities, then as identity_queue.h says. Which
// queue launches next is decided in batching_policy.h, and for whom in
// client_table.h.

#ifndef QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
#define QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "server/scheduling/batching_policy.h"
#include "server/scheduling/drr_ring.h"
#include "server/scheduling/identity_queue.h"
#include "server/scheduling/layer_sequence_predictor.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

// Requests share a launch only if their keys are equal.
struct QueueKey {
  const void* work = nullptr;  // weights or a program; compared, never read
  MatmulSignature signature;
  LaunchKind kind = LaunchKind::kMerged;
  bool time_ops = false;  // of the program

  friend bool operator==(const QueueKey& a, const QueueKey& b) {
    return a.work == b.work && a.signature == b.signature && a.kind == b.kind &&
           a.time_ops == b.time_ops;
  }
  template <typename H>
  friend H AbslHashValue(H h, const QueueKey& key) {
    return H::combine(std::move(h), key.work, key.signature.a_type,
                      key.signature.c_type, key.signature.mode,
                      key.signature.rounding, key.kind, key.time_ops);
  }
};

// Bounds of one batch. One request alone may have more rows.
struct BatchBounds {
  int64_t max_requests = 1;
  int64_t max_rows = 64;
};

// Objects that queues share.
struct QueuePools {
  ObjectPool<ClientQueue> client_queues;
  ObjectPool<IdentityQueue> identity_queues;
};

// Not thread-safe. Borrows waiting requests and the pools.
class FairQueue {
 public:
  FairQueue(const QueueKey& key, QueuePools* pools)
      : key_(key), pools_(pools) {}
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  const QueueKey& key() const { return key_; }
  bool empty() const { return requests_ == 0; }
  int64_t requests() const { return requests_; }
  int64_t rows() const { return rows_; }

  // Inserts the request behind all others of its client.
  void Push(WaitingRequest* waiting);
  // Inserts a request that has computed rows before all others of its client.
  void PushUnfinished(WaitingRequest* waiting);
  // Removes the request from all orders.
  void Remove(WaitingRequest* waiting);
  // Must follow Remove and Launched when they have emptied an identity's queue,
  // which is reused after that.
  void Release(IdentityQueue* emptied);

  // Appends the next batch, in its order, to `batch`; its requests stay counted
  // here until Launched or Restore. Removes cancelled requests and appends them
  // to `cancelled`.
  void TakeBatch(const BatchBounds& bounds, const BatchStart& start,
                 std::vector<WaitingRequest*>* batch,
                 std::vector<WaitingRequest*>* cancelled);
  // Ends a request's time in a batch: Launched removes it, Restore returns it
  // to its old position. Restore in the reverse order of the batch.
  void Launched(WaitingRequest* waiting);
  void Restore(WaitingRequest* waiting);

  // The layer as the predictor sees it.
  SequenceLayer* layer() { return &layer_; }

 private:
  // A batch while it is put together.
  struct BatchFill {
    BatchBounds left;
    std::vector<WaitingRequest*>* batch;
    std::vector<WaitingRequest*>* cancelled;
  };

  IdentityQueue* QueueOf(const WaitingRequest& waiting);
  void Count(const WaitingRequest& waiting);
  void Uncount(const WaitingRequest& waiting);
  // Enters or leaves the ring as the queue has a request for a batch or not.
  void UpdateTurns(IdentityQueue* queue);

  // False if the request, the first of its client queue, does not fit: the
  // batch is closed.
  bool Take(WaitingRequest* waiting, BatchFill* fill);
  bool TakeStart(const BatchStart& start, BatchFill* fill);

  const QueueKey key_;
  QueuePools* const pools_;
  DrrRing<IdentityQueue> ring_;
  absl::flat_hash_map<const IdentityState*, IdentityQueue*> queues_;
  SequenceLayer layer_;
  int64_t requests_ = 0;
  int64_t rows_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_FAIR_QUEUE_H_
