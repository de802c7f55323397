// SPDX-License-Identifier: Apache-2.0
//
// Requests whose layer is on the disk: they wait until it is in memory, and go
// to the scheduler then.

#ifndef QGEMM_SERVER_SCHEDULING_PARKED_REQUESTS_H_
#define QGEMM_SERVER_SCHEDULING_PARKED_REQUESTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kernels/matrix/backend.h"
#include "server/scheduling/batch_scheduler.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/queue_admission.h"
#include "server/weights/layer_loader.h"

namespace qgemm {

// Thread-safe.
class ParkedRequests {
 public:
  struct Parts {
    const Backend* backend = nullptr;
    LayerLoader* loader = nullptr;
    BatchScheduler* scheduler = nullptr;
    const Clock* clock = nullptr;
  };

  // The parts must outlive the object; the loader must be stopped before it is
  // destroyed. More than `max_requests` are refused, and so are those of one
  // identity beyond its share of them, as in the scheduler's queue.
  ParkedRequests(const Parts& parts, int64_t max_requests);
  ParkedRequests(const ParkedRequests&) = delete;
  ParkedRequests& operator=(const ParkedRequests&) = delete;
  ~ParkedRequests();

  // Takes a request with a layer and without its memory. Its `done` runs
  // exactly once: by the scheduler, or here with DEADLINE_EXCEEDED, CANCELLED,
  // UNAVAILABLE (a drain), RESOURCE_EXHAUSTED (too many wait, in all or of its
  // identity; memory will never have room for the layer), DATA_LOSS (its file
  // was damaged), UNIMPLEMENTED or INVALID_ARGUMENT (the backend computes no
  // such product, or the request alone is beyond its identity's quota).
  void Park(std::unique_ptr<AdmittedRequest> request);

  // Ends all that wait, and those to come, with UNAVAILABLE. May be repeated.
  void Drain();

 private:
  struct Waiting {
    std::unique_ptr<AdmittedRequest> request;
    LayerLoader::Ticket ticket = kNoTicket;
  };
  // A request whose layer is being asked for.
  static constexpr LayerLoader::Ticket kNoTicket = -1;

  using WaitingByNumber = std::map<int64_t, Waiting>;

  // OK if the request may wait.
  absl::Status CheckRoom(const AdmittedRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a request in (1) or out (-1).
  void Count(const AdmittedRequest& request, int64_t change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiting Remove(WaitingByNumber::iterator waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends one that waits no longer, in the loader too.
  void End(Waiting waiting, const absl::Status& status);
  void Resume(int64_t number, LayerLoader::Result layer);
  // Ends, every now and then, those that nobody waits for any more.
  void Watch();
  std::unique_ptr<AdmittedRequest> Take(int64_t number);

  const Parts parts_;
  const QueueLimits limits_;
  Mutex mutex_;
  CondVar changed_;
  WaitingByNumber waiting_ ABSL_GUARDED_BY(mutex_);
  // Sums over waiting_: all, and by identity, of which none is zero.
  QueueDepth depth_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, QueueDepth> depth_of_
      ABSL_GUARDED_BY(mutex_);
  int64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_PARKED_REQUESTS_H_
