// SPDX-License-Identifier: Apache-2.0
//
// The choice of a call's channel: a pure function, and the channels with the
// work in flight on each that it chooses by.

#ifndef QGEMM_CLIENT_CHANNEL_POOL_H_
#define QGEMM_CLIENT_CHANNEL_POOL_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/channels.h"

namespace qgemm {

// A set of servers, a bit each.
using ServerSet = uint64_t;
static_assert(kMaxServers <= 64, "a server is a bit of ServerSet");

// A channel as a call finds it.
struct ChannelState {
  bool ready = false;       // connected
  bool tried = false;       // the call has failed at its server
  bool failing = false;     // its server answered UNAVAILABLE lately
  int64_t outstanding = 0;  // work in flight
};

// The index of the channel that a call takes: one that is ready rather than one
// that is not; among those one that was not tried; among those one that does
// not fail; among those the one with the least work; among those the first from
// `first` on. `channels` is not empty.
size_t ChooseChannel(absl::Span<const ChannelState> channels, size_t first);

// Thread-safe.
class ChannelPool {
 public:
  // A call that looks for a channel.
  struct Request {
    int64_t rows = 1;  // its work
    // A stream, which stays for long, goes where the fewest streams are, and so
    // does the call that asks for its limits.
    bool is_stream = false;
    bool precedes_stream = false;
    ServerSet tried = 0;
    std::optional<size_t> server;  // only there
  };

  // A call's place in a channel, from Enter to Leave.
  struct Place {
    size_t index = 0;
    size_t server = 0;
    std::shared_ptr<grpc::Channel> channel;
    int64_t rows = 0;
    bool is_stream = false;
  };

  // `channels` has one or more, of servers from 0 on.
  explicit ChannelPool(Channels channels);
  ChannelPool(const ChannelPool&) = delete;
  ChannelPool& operator=(const ChannelPool&) = delete;

  size_t servers() const { return servers_; }

  // Counts the call in. Channels of several servers that are not connected
  // begin to connect.
  Place Enter(const Request& request);
  // Counts it out. UNAVAILABLE marks the server as failing for a while.
  void Leave(const Place& place, const absl::Status& end);

  // The channels of a server that are connected, and its rows in flight.
  struct ServerLoad {
    int connected = 0;
    int64_t rows = 0;
  };
  ServerLoad LoadOf(size_t server);

  // True if a server that is not in `tried` is connected.
  bool HasUntried(ServerSet tried) const;

 private:
  struct Load {
    int64_t rows = 0;     // of calls in flight
    int64_t streams = 0;  // open
  };
  // The channels that a request allows, side by side with their states.
  struct Candidates {
    absl::InlinedVector<size_t, 8> indexes;
    absl::InlinedVector<ChannelState, 8> states;
  };

  // Without the lock, as gRPC has its own; states lack what the lock guards.
  Candidates FindCandidates(const Request& request) const;
  // The index of a channel, `turn` being the request's.
  size_t Choose(const Request& request, Candidates candidates,
                size_t turn) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the place's work, or takes it off if `sign` is -1.
  void AddTo(const Place& place, int sign)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Channels channels_;
  const size_t servers_;

  Mutex mutex_;
  std::vector<Load> loads_ ABSL_GUARDED_BY(mutex_);  // of each channel
  // Until then each server counts as failing.
  std::vector<absl::Time> failing_until_ ABSL_GUARDED_BY(mutex_);
  // Calls and streams have turns of their own: a stream keeps its channel.
  size_t next_call_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_stream_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CHANNEL_POOL_H_
