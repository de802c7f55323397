// SPDX-License-Identifier: Apache-2.0
//
// The sockets of lanes: who connects, which lanes are opened and with what, and
// when they end. Requests go through lane_poller.h.

#ifndef QGEMM_SERVER_LANE_LANE_CONTROL_H_
#define QGEMM_SERVER_LANE_LANE_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "server/lane/lane.h"
#include "server/lane/lane_poller.h"
#include "server/lane/lane_quota.h"
#include "server/lane/lane_requests.h"
#include "server/lane/lane_sockets.h"
#include "server/lane/packets.h"
#include "server/net/listener.h"
#include "server/rpc/call_gate.h"

namespace qgemm {

// Thread-safe. One thread, which sleeps while nothing happens on the sockets.
class LaneControl {
 public:
  // All but the listener must outlive this.
  LaneControl(Listener listener, const LaneLimits& limits,
              const LaneParts& parts, LaneRequests* requests,
              LanePoller* poller);
  LaneControl(const LaneControl&) = delete;
  LaneControl& operator=(const LaneControl&) = delete;
  ~LaneControl();

  // Starts the thread. Once.
  void Start();

  // Accepts no more connections, and no more lanes on those that there are.
  void Refuse();

  // Ends every lane with `reason`, then the thread. The memory of lanes that
  // have requests goes with the last of them. Idempotent, but for one thread at
  // a time.
  void Stop(const absl::Status& reason);

  // Looks for lanes that are broken, and ends them. From any thread.
  void Notify();

 private:
  // Bytes that the quota counts for a connection, and for whom.
  struct Counted {
    std::string identity;
    int64_t bytes = 0;
  };

  // A client's socket; with a lane once it has said hello.
  struct Connection {
    FileDescriptor socket;
    std::shared_ptr<const Peer> peer;
    std::string name;  // in the peer table
    absl::Time hello_due;
    std::optional<Counted> counted;
    std::shared_ptr<Lane> lane;
  };
  using Connections = std::map<uint64_t, Connection>;

  // A lane that has ended, until its last request has.
  struct EndedLane {
    std::shared_ptr<Lane> lane;
    Counted counted;
  };

  void Run();
  void AcceptAll();
  void Enter(FileDescriptor socket);
  void OnReadable(uint64_t id);
  // Handles one packet; an error ends the connection, and is told.
  absl::Status Handle(const ReceivedPacket& received, Connection* connection);
  absl::Status OpenLane(const HelloPacket& hello, Connection* connection);
  absl::Status MakeLane(const HelloPacket& hello, Connection* connection);
  // Moves a connection's count to that identity; RESOURCE_EXHAUSTED, and it
  // counts for nobody, if that has no room.
  absl::Status CountAs(const std::string& identity, int64_t bytes,
                       Connection* connection);
  void Uncount(Connection* connection);
  absl::Status OpenHandle(const OpenPacket& open, Connection* connection);
  absl::StatusOr<lane::Opened> MakeHandle(const OpenPacket& open,
                                          Connection* connection);
  absl::Status CloseHandle(const ClosePacket& close, Connection* connection);
  // `descriptor` came with the packet; it may be none.
  absl::Status AttachMemory(const AttachPacket& attach,
                            const FileDescriptor& descriptor,
                            Connection* connection);
  absl::StatusOr<lane::Attached> MakeRegion(const AttachPacket& attach,
                                            const FileDescriptor& descriptor,
                                            Lane* lane) const;

  // Ends a connection, and its lane if it has one. `reason` is a label of
  // qgemm_lanes_ended_total; `status` is told to the client, unless it is OK:
  // then it has gone by itself.
  void End(uint64_t id, absl::string_view reason, const absl::Status& status);
  void EndBroken();
  // Gives up silent connections and frees lanes without requests.
  void Sweep();
  bool NeedsSweeps() const;
  void Watch(int fd, uint64_t id) const;

  static absl::Status Draining() {
    return absl::UnavailableError(
        "the server is draining and opens no lanes; try another replica");
  }

  const LaneParts parts_;
  const CallGate gate_;
  LaneRequests* const requests_;
  LanePoller* const poller_;
  FileDescriptor epoll_;
  FileDescriptor wake_;  // an event: Notify, Refuse or Stop
  std::atomic<bool> refuses_{false};
  std::atomic<bool> stopping_{false};
  absl::Status stop_reason_;  // set before stopping_

  // Used by the thread alone.
  std::unique_ptr<Listener> listener_;  // null once there are no more
  LaneQuota quota_;
  Connections connections_;
  std::deque<EndedLane> ended_;
  uint64_t last_id_;
  bool paused_ = false;  // the listener is not watched
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_CONTROL_H_
