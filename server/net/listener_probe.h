// SPDX-License-Identifier: Apache-2.0
//
// The server connects to its own listeners, so that health tells of one at
// which nobody can connect any more.

#ifndef QGEMM_SERVER_NET_LISTENER_PROBE_H_
#define QGEMM_SERVER_NET_LISTENER_PROBE_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "server/net/listen.h"
#include "server/net/socket_address.h"

namespace qgemm {

// Connects to each address once a second. Its connections are told by their
// own ends, which nobody else can have meanwhile; the accept loop closes them
// and hands none to gRPC. Thread-safe; no method waits.
class ListenerProbe {
 public:
  // The addresses have their actual ports. `clock` must outlive the object.
  ListenerProbe(const std::vector<ListenAddress>& addresses,
                const Clock* clock);

  // Sends the connections that are due. OK unless the last one to an address
  // was not accepted for 2 s or could not be sent: UNAVAILABLE names the
  // address. To be called every second at least.
  absl::Status Check();

  // From now on Check sends nothing and returns OK.
  void Stop();

  // True if the accepted connection from `remote` is a probe's, which has then
  // arrived.
  bool Arrived(const SocketAddress& remote);

 private:
  struct Target {
    ListenAddress address;
    SocketAddress socket_address;
    FileDescriptor fd;   // of the probe under way
    SocketAddress own;   // its end
    absl::Time started;  // of the first probe that has not arrived
    absl::Time due = absl::InfinitePast();
    bool waiting = false;  // for a probe to arrive
    std::string failure;   // of the last attempt to send one
  };

  // Sends a probe; false with `failure` set if that is impossible.
  static bool Send(Target* target);
  absl::Status Advance(Target* target, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  std::vector<Target> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_LISTENER_PROBE_H_
