// SPDX-License-Identifier: Apache-2.0
//
// grpc.health.v1.Health on the completion queues of qgemm_service.h. gRPC's own
// runs on threads that poll beside ours: they take connections' events and hand
// them over, which costs a request of one row some 20 us.

#ifndef QGEMM_SERVER_RPC_HEALTH_SERVICE_H_
#define QGEMM_SERVER_RPC_HEALTH_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "rpc/completion_queue.h"
#include "server/health/health.h"
#include "server/rpc/server_call.h"

namespace qgemm {

namespace health = ::grpc::health::v1;
// Takes and gives bytes, so that messages are bounded before they are parsed.
using AsyncHealth = health::Health::WithRawMethod_Check<
    health::Health::WithRawMethod_Watch<health::Health::Service>>;
using HealthStatus = health::HealthCheckResponse::ServingStatus;

// The life of the service: Register, the server is built, Accept; EndWatches
// before the server shuts down. Thread-safe. Must outlive the calls it accepts.
class HealthService {
 public:
  // Names of the two kinds of health, as Kubernetes calls its probes.
  static constexpr char kLiveness[] = "liveness";
  static constexpr char kReadiness[] = "readiness";

  // Answers with readiness for the server as a whole (""), `service`, its one
  // service, and kReadiness: not serving until Set; with liveness for
  // kLiveness. Of one client 1024 Watches may be open. The parts of the
  // services must outlive this.
  HealthService(const CallServices& services, std::string service);
  ~HealthService();

  void Register(grpc::ServerBuilder* builder);

  // Waits for a call of each method on `queue`; each accepted call makes room
  // for the next.
  void Accept(CompletionQueue* queue);

  // Watchers hear of a change.
  void Set(const Health& health);

  // Ends every Watch, and those to come, with UNAVAILABLE.
  void EndWatches();

 private:
  class CheckCall;
  class WatchCall;

  bool Knows(const std::string& service) const;
  HealthStatus StatusOf(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcceptCheck(CompletionQueue* queue);
  void AcceptWatch(CompletionQueue* queue);

  const CallServices services_;
  const std::string service_name_;
  AsyncHealth service_;

  Mutex mutex_;  // also of each WatchCall's state
  bool live_ ABSL_GUARDED_BY(mutex_) = true;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<WatchCall>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_HEALTH_SERVICE_H_
