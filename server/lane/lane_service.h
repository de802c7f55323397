// SPDX-License-Identifier: Apache-2.0
//
// The local lane (docs/lane.md): requests of processes on this host through
// memory that they share with the server, beside gRPC. Puts its parts together.

#ifndef QGEMM_SERVER_LANE_LANE_SERVICE_H_
#define QGEMM_SERVER_LANE_LANE_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/lane/lane_control.h"
#include "server/lane/lane_poller.h"
#include "server/lane/lane_quota.h"
#include "server/lane/lane_requests.h"
#include "server/net/listener.h"

namespace qgemm {

struct LaneOptions {
  std::string listen;                                      // "unix:path"
  SocketFileOptions socket_file;                           // its mode and group
  absl::Duration spin;                                     // --lane_spin
  absl::Duration slow_request = absl::InfiniteDuration();  // to log
  int wake_threads = 1;
  LaneLimits limits;
};

// The life of the service, in this order: Create, Start, BeginDrain, Stop.
// Thread-safe.
class LaneService {
 public:
  // Listens; serves nobody yet. All parts must outlive the service. Errors:
  // INVALID_ARGUMENT (not a Unix address), FAILED_PRECONDITION (the path is
  // taken; the backend cannot compute in memory of clients).
  static absl::StatusOr<std::unique_ptr<LaneService>> Create(
      const LaneOptions& options, const LaneParts& parts);
  ~LaneService();

  // The path of its socket.
  const std::string& path() const { return path_; }

  void Start();

  // Opens no more lanes; requests that are taken from here on complete with
  // `refusal`. Those before go on.
  void BeginDrain(const absl::Status& refusal);

  // Waits for the requests that were taken, which end as the scheduler drains,
  // then ends all lanes and the threads. Idempotent.
  void Stop();

 private:
  LaneService(const LaneOptions& options, const LaneParts& parts,
              Listener listener);

  const std::string path_;
  LaneRequests requests_;
  LanePoller poller_;
  LaneControl control_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_SERVICE_H_
