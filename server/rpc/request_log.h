// SPDX-License-Identifier: Apache-2.0
//
// Events of the log about calls and their requests (docs/operations.md#log).
// Calls that end well and in time have none.

#ifndef QGEMM_SERVER_RPC_REQUEST_LOG_H_
#define QGEMM_SERVER_RPC_REQUEST_LOG_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/scheduling/gemm_request.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// A Gemm that was computed. Borrowed.
struct SlowRequest {
  absl::string_view method;  // the RPC's
  const AdmittedRequest& request;
  const GemmTimings& timings;
  absl::Duration total;  // from the arrival to the answer
};

// "slow_request". `store` names the layer.
void LogSlowRequest(const SlowRequest& slow, const WeightStore& store);

// "weights_unloaded", by a name or an id.
void LogUnload(absl::string_view weights, bool freed, const Peer& peer);

// "weights_sent_to_disk", by a name or an id: an unload that kept them there.
void LogUnloadToDisk(absl::string_view weights, const Peer& peer);

// A program that a call loaded, or bound a name to. Borrowed.
struct LoggedProgram {
  absl::string_view id;
  absl::string_view name;  // bound to it; may be empty
  uint64_t ops = 0;
  uint64_t bytes = 0;  // beside its weights
  bool deduplicated = false;
};

// "program_loaded", or "program_bound" for one that the server had already.
void LogProgram(const LoggedProgram& program, const Peer& peer);

// "program_unloaded", by a name or an id.
void LogProgramUnload(absl::string_view program, bool freed, const Peer& peer);

// Finds the client of a call; runs only if its line is written.
using PeerFinder = absl::FunctionRef<std::shared_ptr<const Peer>()>;

// "request_refused", for a call or a request of a stream that ends with an
// error. Nothing for OK and CANCELLED. Lines are limited for each method and
// code.
void LogRefusal(absl::string_view method, const absl::Status& status,
                PeerFinder find_peer);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_REQUEST_LOG_H_
