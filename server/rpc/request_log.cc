// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/request_log.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "kernels/programs/canonical_text.h"

namespace qgemm {
namespace {

// Errors of ours; shortages, which an operator can mend; errors of clients.
LogSeverity SeverityOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return LogSeverity::kError;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return LogSeverity::kWarning;
    default:
      return LogSeverity::kInfo;
  }
}

}  // namespace

void LogSlowRequest(const SlowRequest& slow, const WeightStore& store) {
  LogEvent event(LogSeverity::kWarning, __FILE__, __LINE__, "slow_request");
  if (!event.is_written()) return;
  const AdmittedRequest& request = slow.request;
  event.With("method", slow.method);
  if (request.layer != nullptr) {
    event.With("id", request.layer->id);
    const absl::StatusOr<NamedWeights> listing =
        store.Get(kAnybody, request.layer->id);
    if (listing.ok() && !listing->names.empty()) {
      event.With("name", listing->names.front());
    }
  }
  if (request.program != nullptr) {
    event.With("program", ProgramId(request.program->program()));
  }
  event.With("m", request.m)
      .With("total", slow.total)
      .With("queue", slow.timings.queue)
      .With("kernel", slow.timings.kernel)
      .With("launch_rows", slow.timings.launch_rows)
      .With("client", request.identity)
      .With("client_id", request.client);
}

void LogUnload(absl::string_view weights, bool freed, const Peer& peer) {
  EVENT(INFO, "weights_unloaded")
      .With("weights", weights)
      .With("freed", freed)
      .With("client", peer.identity)
      .With("address", peer.address);
}

void LogUnloadToDisk(absl::string_view weights, const Peer& peer) {
  EVENT(INFO, "weights_sent_to_disk")
      .With("weights", weights)
      .With("client", peer.identity)
      .With("address", peer.address);
}

void LogProgram(const LoggedProgram& program, const Peer& peer) {
  EVENT(INFO, program.deduplicated ? "program_bound" : "program_loaded")
      .With("id", program.id)
      .With("name", program.name)
      .With("ops", program.ops)
      .With("bytes", program.bytes)
      .With("client", peer.identity)
      .With("address", peer.address);
}

void LogProgramUnload(absl::string_view program, bool freed, const Peer& peer) {
  EVENT(INFO, "program_unloaded")
      .With("program", program)
      .With("freed", freed)
      .With("client", peer.identity)
      .With("address", peer.address);
}

void LogRefusal(absl::string_view method, const absl::Status& status,
                PeerFinder find_peer) {
  if (status.ok() || absl::IsCancelled(status)) return;
  const std::string code = absl::StatusCodeToString(status.code());
  LogEvent event(SeverityOf(status.code()), __FILE__, __LINE__,
                 "request_refused", absl::StrCat(method, " ", code));
  if (!event.is_written()) return;
  const std::shared_ptr<const Peer> peer = find_peer();
  event.With("method", method)
      .With("code", code)
      .With("error", status.message())
      .With("client", peer->identity)
      .With("address", peer->address);
}

}  // namespace qgemm
