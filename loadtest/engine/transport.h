// SPDX-License-Identifier: Apache-2.0
//
// Carriers of the load generator's requests: the border between pacing and
// counting on one side and connections on the other.

#ifndef QGEMM_LOADTEST_ENGINE_TRANSPORT_H_
#define QGEMM_LOADTEST_ENGINE_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"

namespace qgemm::loadtest {

// The end of a request. Borrows; valid during RequestSink::OnEnd.
struct EndedRequest {
  // The first error among the parts of a request in parts.
  absl::Status status;
  // True if Disconnect cut the connection that carried it, or a part of it.
  bool cut = false;
  // If the status is OK: the server's timings, of the part that ended last, and
  // C [m, n] in pieces, those of one part after the other.
  Timings timings;
  absl::Span<const absl::string_view> c;
  // Not null: C, one piece, lies on a GPU, and this copies it to the host.
  const std::function<std::string(absl::string_view)>* fetch = nullptr;
};

// Receives completions.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // Once for each Start, one at a time, and never within Start. May start the
  // next request in the same slot.
  virtual void OnEnd(int slot, const EndedRequest& end) = 0;
};

// A set of connections with slots for requests in flight. Start and Cancel
// are thread-safe between different slots; a slot has one request at most.
// Destroyed once every request has ended.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends request number `message` of the transport's set, with a deadline
  // after `timeout` that the server is told; infinite: none.
  virtual void Start(int slot, int message, absl::Duration timeout) = 0;

  // Ends the slot's request early if it is in flight; OnEnd comes all the
  // same.
  virtual void Cancel(int slot) = 0;

  // Cuts one connection without closing it, the connections in turn, and makes
  // a fresh one in its place. Requests on it end with `cut` set.
  virtual absl::Status Disconnect() {
    return absl::FailedPreconditionError(
        "this transport has no connections that can be cut");
  }
};

using OpenedTransport = absl::StatusOr<std::unique_ptr<Transport>>;

// Opens a transport with `slots` slots; `sink` must outlive it.
using OpenTransport =
    std::function<OpenedTransport(int slots, RequestSink* sink)>;

// Largest message that the generator sends or takes; the server's limit, which
// is lower, is the one that applies.
inline constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;

struct TransportOptions {
  std::string target;    // as Client::Connect takes it
  ClientOptions client;  // of which TLS and the token count
  // To each server, of one transport.
  int channels = 1;
  // Connections that can be cut do not reconnect when the server goes.
  bool can_be_cut = false;
  absl::Duration connect_timeout = absl::Seconds(10);
  // Time that threads look for a lane's answers, as LaneOptions has it.
  absl::Duration lane_spin = absl::Microseconds(50);
  // A lane's operands lie on the first GPU.
  bool device_operands = false;
  // Each slot is a client of its own, whose id begins with this. Empty: no
  // ids.
  std::string client_id_prefix;
  // Messages that make one request, neighbours in the set: request i is those
  // from i * parts on. They are sent at once and in turn over the channels.
  int parts = 1;
};

class MessageSet;

// Each message is a call over TCP or a Unix socket; slots, or their parts,
// share the channels in turn, those of all servers, and stay with theirs. Every
// transport has a completion queue and a thread of its own, and opens once all
// channels are connected. `messages` must outlive the transports. Errors of
// opening: INVALID_ARGUMENT (the target), UNAVAILABLE.
OpenTransport GrpcTransports(TransportOptions options,
                             const MessageSet* messages);

// Gemms and Runs over streams of the client library, one stream a connection,
// which slots share in the same way. A broken stream stays so: requests on it
// end with the reason. `messages`, all whole requests, must outlive the
// transports.
// Errors of opening: as above.
OpenTransport StreamTransports(TransportOptions options,
                               const MessageSet* messages);

// Asynchronous Gemms and Runs by a lane of the client library, one a transport;
// those that a lane does not carry (docs/lane.md) go by gRPC. `messages` must
// outlive the transports. Errors of opening: as above, those of a lane that is
// required.
OpenTransport LaneTransports(TransportOptions options,
                             const MessageSet* messages);

// Answers at once with nothing: shows what the generator itself costs and can
// do.
OpenTransport NullTransports();

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_TRANSPORT_H_
