// SPDX-License-Identifier: Apache-2.0
//
// All RPCs of qgemm.v1 on completion queues with their own threads. gRPC
// answers any other method with UNIMPLEMENTED.

#ifndef QGEMM_SERVER_RPC_QGEMM_SERVICE_H_
#define QGEMM_SERVER_RPC_QGEMM_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "kernels/matrix/backend.h"
#include "server/access/access_control.h"
#include "server/health/health.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/programs/program_store.h"
#include "server/rpc/rpc_options.h"
#include "server/scheduling/batch_scheduler.h"
#include "server/scheduling/parked_requests.h"
#include "server/weights/layer_loader.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Parts of the server that its RPCs work with.
struct ServerParts {
  Backend* backend = nullptr;
  WeightStore* store = nullptr;
  BatchScheduler* scheduler = nullptr;
  ServerMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  const PeerTable* peers = nullptr;
  ProgramStore* programs = nullptr;
  const AccessControl* access = nullptr;  // null: everybody may everything
  // Null without a state directory.
  LayerLoader* loader = nullptr;
  ParkedRequests* parked = nullptr;
};

// The life of the service, in this order: Register, the server is built,
// Start, BeginDrain, ShutDown, Join. SetHealth may come at any time.
class QgemmService {
 public:
  // The parts must outlive the service.
  QgemmService(const RpcOptions& options, const ServerParts& parts);
  ~QgemmService();

  // Adds the service, those for debugging and health, and their queues.
  void Register(grpc::ServerBuilder* builder);

  void Start();

  // Answers of grpc.health.v1 from here on.
  void SetHealth(const Health& health);

  // Once the server cannot compute any more: BeginDrain, with `reason`
  // (UNAVAILABLE) for the calls.
  void Fail(const absl::Status& reason);

  // Refuses new calls, and requests on streams,
  // and ends uploads with UNAVAILABLE; streams end when the requests that they
  // accepted are answered.
  void BeginDrain();

  // Runs `shut_down_server`, which must return when the server's calls have
  // ended. Refusals are held shortly before that and answered once the server
  // has told its clients that it goes: a call that would meet the shutdown on
  // its way would end with CANCELLED.
  void ShutDown(absl::AnyInvocable<void()> shut_down_server);

  // Returns when every call has ended and every thread has gone. The server
  // must be shut down, or never have been built.
  void Join();

 private:
  class Handlers;
  const std::unique_ptr<Handlers> handlers_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_QGEMM_SERVICE_H_
