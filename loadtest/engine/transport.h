// SPDX-License-Identifier: Apache-2.0
//
// What carries the load generator's requests to a server: the border between
// pacing and counting on one side and connections on the other.

#ifndef QGEMM_LOADTEST_ENGINE_TRANSPORT_H_
#define QGEMM_LOADTEST_ENGINE_TRANSPORT_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "qgemm/gemm.h"

namespace qgemm {

// How a request ended. Borrows; valid during RequestSink::OnEnd.
struct EndedRequest {
  absl::Status status;
  // Disconnect cut the connection that carried it.
  bool cut = false;
  // If the status is OK: what the server said, and C [m, n] in pieces.
  Timings timings;
  absl::Span<const absl::string_view> c;
};

// Hears of the ends.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // Once for each Start, on the transport's one thread, with no lock held. May
  // start the next request in the same place.
  virtual void OnEnd(int place, const EndedRequest& end) = 0;
};

// A set of connections with places for requests in flight. Start and Cancel
// are thread-safe between different places; a place has one request at most.
// Destroyed once every request has ended.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends message number `message` of the set that the transport was made for,
  // with a deadline after `timeout` that the server is told of; infinite: none.
  virtual void Start(int place, int message, absl::Duration timeout) = 0;

  // Ends the place's request early if it is in flight; OnEnd comes all the
  // same.
  virtual void Cancel(int place) = 0;

  // Cuts one connection without a goodbye, the connections in turn; makes a
  // fresh one in its place. What it carried ends with `cut` set.
  virtual absl::Status Disconnect() = 0;
};

// Makes transports that are alike, one a lane.
class TransportFactory {
 public:
  virtual ~TransportFactory() = default;
  // `sink` must outlive the transport.
  virtual absl::StatusOr<std::unique_ptr<Transport>> Open(
      int places, RequestSink* sink) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_TRANSPORT_H_
