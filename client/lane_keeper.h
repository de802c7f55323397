// SPDX-License-Identifier: Apache-2.0
//
// Keeps a client's lane: opens it, sees its end, opens the next.

#ifndef QGEMM_CLIENT_LANE_KEEPER_H_
#define QGEMM_CLIENT_LANE_KEEPER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/lane.h"
#include "client/token.h"
#include "qgemm/client_options.h"

namespace qgemm {

// Thread-safe. Start, RequestStop and Join come once each, in this order; the
// last two may come without the first.
class LaneKeeper {
 public:
  // The path of the server's socket now.
  using FindPath = std::function<absl::StatusOr<std::string>(absl::Time)>;

  // `token` is null if the client has none.
  LaneKeeper(FindPath find_path, std::shared_ptr<TokenSource> token,
             const ClientLaneOptions& options)
      : find_path_(std::move(find_path)),
        token_(std::move(token)),
        options_(options) {}
  LaneKeeper(const LaneKeeper&) = delete;
  LaneKeeper& operator=(const LaneKeeper&) = delete;
  ~LaneKeeper();

  // Opens the lane and keeps it from then on, on a thread of its own. Errors:
  // those of the path and of ClientLane::Open; nothing is kept then.
  absl::Status Start(absl::Time deadline);

  // Lent to each lane.
  absl::Span<const DeviceOperands> device_operands() const {
    return options_.device_operands;
  }

  // Null: there is none at the moment.
  std::shared_ptr<ClientLane> lane() const;
  // True once Start has opened a lane: after each end it opens the next.
  bool is_kept() const;

  // True on the threads that end calls which a lane started.
  bool OnLaneThread() const;

  // Ends the lane, and with it all calls on it.
  void RequestStop();
  bool is_stopped() const;
  // Waits for the thread, after RequestStop.
  void Join();

 private:
  absl::StatusOr<std::shared_ptr<ClientLane>> Open(absl::Time deadline) const;
  void Keep(std::shared_ptr<ClientLane> current);
  // The next lane; null: RequestStop came first.
  std::shared_ptr<ClientLane> OpenAgain();
  // False: RequestStop came first.
  bool Sleep(absl::Duration pause);
  // False: RequestStop came first, and the lane is not kept.
  bool Take(std::shared_ptr<ClientLane> lane);

  const FindPath find_path_;
  const std::shared_ptr<TokenSource> token_;
  const ClientLaneOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_kept_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ClientLane> lane_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_KEEPER_H_
