// SPDX-License-Identifier: Apache-2.0
//
// Metrics of the server, under the names in docs/metrics.md. The text endpoint
// is in metrics_endpoint.h.

#ifndef QGEMM_SERVER_METRICS_SERVER_METRICS_H_
#define QGEMM_SERVER_METRICS_SERVER_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace qgemm {

class Traffic;

// State of the server as a whole, of which its health monitor decides.
enum class HealthState : uint8_t { kStarting, kServing, kDraining, kFailed };

// Returns "starting", "serving", "draining" or "failed".
const char* NameOf(HealthState state);

struct HealthReport {
  HealthState state = HealthState::kStarting;
  std::string reason;  // for people; empty while all is well
};

// Direction of bytes, as the server sees it.
enum class Direction : uint8_t { kReceived, kSent };

// Labels of qgemm_build_info.
struct BuildInfo {
  std::string version;
  std::string backend;  // "cpu", "cuda", "reference"
  std::string device;   // processor or GPU, as people call it
  std::string detail;   // instruction set, compute capability
};

// Cause of a request that ended without a result.
enum class DropReason : uint8_t {
  kQueueFull,
  kQuota,
  kTooLarge,
  kDraining,
  kDeadline,
  kCancelled,
};

// Point at which a request ended without a result.
enum class DropStage : uint8_t {
  kAdmission,  // refused: it never waited
  kQueue,      // waiting; nothing was computed
  kChunks,     // between two launches of a large request
};

// Per-stage latency of one request: sums over its launches.
struct GemmTimings {
  absl::Duration queue;
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  absl::Duration total;  // from arrival to the end of the last launch
  // Size of the request's largest launch.
  int64_t launch_rows = 0;
  int64_t launch_requests = 0;
  // Parts of `kernel`, one an op of a program, if they were asked for; else
  // empty.
  std::vector<absl::Duration> ops = {};
};

// One launch that succeeded.
struct LaunchFigures {
  int64_t rows = 0;
  int64_t requests = 0;
  absl::Duration queue;  // the wait of its oldest request
  absl::Duration kernel;
};

// Memory by the backend's own accounting.
struct MemoryFigures {
  int64_t weights_bytes = 0;
  int64_t staging_bytes = 0;         // in use and kept for reuse
  int64_t staging_in_use_bytes = 0;  // operands of requests
};

// The state directory, and memory as its cache.
struct StateFigures {
  int64_t bytes = 0;        // of its layers' files, uploads included
  int64_t limit_bytes = 0;  // of --state_bytes; 0 = none
  int64_t layers = 0;       // that it has
  int64_t resident_layers = 0;
  int64_t image_bytes = 0;  // of files of images
  int64_t images = 0;
};

class RpcMethod;  // rpc_families.h

// Thread-safe; every method is cheap enough for the hot path.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  // Counts an RPC, or a request of a stream; `method` is "Gemm",
  // "LoadWeights"...
  void RpcEnded(absl::string_view method, absl::StatusCode code,
                absl::Duration latency);
  // For whoever counts many of one method. It lives as long as this.
  RpcMethod* Rpc(absl::string_view method);
  // Sets the totals of requests that wait for a launch.
  void SetQueueDepth(int64_t requests, int64_t rows, int64_t bytes);
  void SetLaunchesInFlight(int64_t launches);
  // Counts requests that enter the queue, and their rows. Each ends by one of
  // the next three.
  void RequestsAccepted(int64_t requests, int64_t rows);
  // Counts refused requests too, which were never accepted: stage kAdmission.
  void RequestDropped(DropReason reason, DropStage stage);
  // Counts requests with so many rows together, by the timings of each.
  void RequestsComputed(int64_t rows,
                        absl::Span<const GemmTimings* const> timings);
  // Counts a request whose launch the backend refused or failed.
  void RequestFailed();
  // Counts a computed request that nobody waited for any more: kDeadline or
  // kCancelled.
  void RequestWasted(DropReason reason);
  void LaunchEnded(const LaunchFigures& launch);
  // Counts a launch that the backend refused or failed.
  void LaunchFailed(absl::StatusCode code);
  // Registers the function that each scrape calls, from any thread, until it is
  // replaced by null.
  void SampleMemory(absl::AnyInvocable<MemoryFigures()> sample);
  // The same of the state directory, if there is one.
  void SampleState(absl::AnyInvocable<StateFigures()> sample);
  // Counts a layer that was brought from the disk, or was to be, and the time.
  void LayerBrought(absl::StatusCode code, absl::Duration took);
  // One whose image was read, or was to be.
  void ImageRead(absl::StatusCode code);
  // Counts layers that the last server had left in memory, or that were no use,
  // and the time that this took.
  void LayersInherited(int64_t layers, int64_t bytes, int64_t dropped_layers,
                       absl::Duration took);
  // Counts layers that left memory for others.
  void LayersEvicted(int64_t layers);
  // Counts files that were set aside.
  void StateFilesDamaged(int64_t files);
  // Counts bytes of files whose hash was compared.
  void AddVerifiedBytes(int64_t bytes);
  // Sets the number of visible layers and of names bound to them.
  void SetLayerCounts(int64_t layers, int64_t names);
  // Sets the bytes of the weights budget in use: by resident layers, layers
  // that launches or programs still use, programs, uploads in progress.
  void SetWeightsBytes(int64_t bytes);
  // Sets the weights budget; 0 = no limit.
  void SetWeightsBudget(int64_t bytes);
  void AddUploadedBytes(int64_t bytes);
  // Sets the number of visible programs and of names bound to them.
  void SetProgramCounts(int64_t programs, int64_t names);
  // Return counters of one layer, by its first name or the first digits of its
  // id, and of one client, by its identity. Their number is bounded
  // (traffic.h), so whoever counts more than once keeps the pointer; it may
  // outlive this.
  std::shared_ptr<Traffic> LayerTraffic(absl::string_view layer);
  std::shared_ptr<Traffic> ClientTraffic(absl::string_view identity);

  // Set once, at the start. 0 is no limit.
  void SetBuildInfo(const BuildInfo& build);
  void SetMemoryLimits(int64_t staging_bytes, int64_t process_bytes);

  void SetHealth(HealthState state, absl::string_view reason = "");
  HealthReport health() const;

  // `transport` is "tcp", "unix", "tls" or "lane".
  void ConnectionsChanged(absl::string_view transport, int64_t delta);
  // Counts a connection that a limit refused, "total", "peer", "fd" or
  // "lane", or closed, "transit".
  void ConnectionRefused(absl::string_view reason);
  void AddTransportBytes(absl::string_view transport, Direction direction,
                         int64_t bytes);
  // Changes the bytes of memory shared with clients of lanes.
  void LaneBytesChanged(int64_t delta);
  // Counts a lane that has ended: "hangup", "index", "slot", "packet", "unread"
  // or "drain".
  void LaneEnded(absl::string_view reason);
  // Counts a wake-up of the thread that looks for requests of lanes.
  void LanesWoken();
  // Sets the end of a certificate: "server", "client_ca"; of a revocation list:
  // "crl".
  void SetTlsExpiry(absl::string_view certificate, absl::Time expiry);
  // Counts changed certificates that were wrong.
  void TlsReloadFailed();
  // `reason` is one of a few (server/tls/handshake_failures.h).
  void TlsHandshakeFailed(absl::string_view reason);
  // Counts a call that was ended for want of progress: "upload_idle",
  // "upload_rate", "operand_idle" or "answer_idle".
  void CallTimedOut(absl::string_view kind);
  // Counts a call that the access table refused: "unknown", "token",
  // "forwarded" or "right".
  void CallDenied(absl::string_view reason);
  // Counts an access table that was not valid, and was not put into force.
  void AccessReloadFailed();
  void StreamsChanged(int64_t delta);
  void UploadsChanged(int64_t delta);
  // Sets the uploads that were cut off and wait to be continued.
  void SetUploadsWaiting(int64_t uploads);
  // Counts one that was continued.
  void UploadContinued();
  // Changes the answers, and their operand bytes, that wait to be read.
  void AnswersWaitingChanged(int64_t answers, int64_t bytes);

  // Returns the families for the endpoint; they may outlive this object.
  std::shared_ptr<prometheus::Collectable> registry() const;

 private:
  struct Families;
  const std::shared_ptr<Families> families_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_SERVER_METRICS_H_
