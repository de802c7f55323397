// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of every listener in place of gRPC, whose own loop
// ends for good when the process is out of file descriptors once
// (CVE-2023-4785), counts nothing and does not tell who connects.

#ifndef QGEMM_SERVER_NET_ACCEPT_LOOP_H_
#define QGEMM_SERVER_NET_ACCEPT_LOOP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/metrics/server_metrics.h"
#include "server/net/connection_table.h"
#include "server/net/listener.h"
#include "server/net/listener_probe.h"
#include "server/net/peer_identity.h"
#include "server/net/peer_table.h"
#include "server/net/socket_address.h"
#include "server/net/transit.h"

namespace qgemm {

// A connection within the limits is entered in the peer table and handed over;
// one beyond them is closed at once. Ended ones are noticed within a second,
// and earlier where one more would be refused. Where messages and calls
// in part fill the heap, the connections that brought most are shut down.
// Thread-safe.
class AcceptLoop {
 public:
  // All must outlive the loop.
  struct Parts {
    PeerTable* peers = nullptr;
    ServerMetrics* metrics = nullptr;
    const Clock* clock = nullptr;
  };
  // Receives a connection, which it owns from then on, on the loop's thread.
  using HandOver = absl::AnyInvocable<void(const Listener& listener, int fd)>;

  AcceptLoop(std::vector<Listener> listeners, const ConnectionLimits& limits,
             const Parts& parts, HandOver hand_over);
  AcceptLoop(const AcceptLoop&) = delete;
  AcceptLoop& operator=(const AcceptLoop&) = delete;
  ~AcceptLoop();

  const std::vector<Listener>& listeners() const { return listeners_; }

  // Starts the thread. Once.
  void Start();

  // Ends the thread: `hand_over` does not run any more, and nobody can connect.
  // Connections stay. Idempotent, but for one thread at a time.
  void Stop();

  // OK if every listener accepts, or the loop was stopped: see ListenerProbe.
  absl::Status ProbeListeners() { return probe_.Check(); }

 private:
  // A connection that has ended, and the time at which that was noticed.
  struct EndedConnection {
    absl::Time time;
    std::string name;
    std::shared_ptr<const Peer> peer;
  };

  void Run();
  void AcceptFrom(const Listener& listener);
  void RefuseForWantOfDescriptors(const Listener& listener);
  void Take(const Listener& listener, FileDescriptor fd,
            const SocketAddress& remote);
  bool Admit(const Listener& listener, const Peer& peer);
  void Enter(const Listener& listener, Connection* connection);
  void OnEnded(const Connection& connection);
  void Sweep();
  void GuardTransit();
  void Report(absl::string_view reason, const Connection& connection);
  void ShutDown(Connection* connection);

  const Parts parts_;
  HandOver hand_over_;
  std::vector<Listener> listeners_;
  ListenerProbe probe_;
  FileDescriptor wake_;            // an event that ends the loop
  FileDescriptor transit_notice_;  // an event that calls for the guard

  // Used by the loop's thread alone.
  ConnectionTable connections_;
  TransitGuard guard_;
  absl::Time guard_due_ = absl::InfinitePast();
  SocketOwners owners_;
  std::deque<EndedConnection> ended_;
  FileDescriptor reserve_;
  uint64_t accepted_ = 0;
  absl::Time swept_ = absl::InfinitePast();
  bool paused_ = false;

  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_ACCEPT_LOOP_H_
