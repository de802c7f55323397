// SPDX-License-Identifier: Apache-2.0
//
// All RPCs of qgemm.v1 on completion queues with their own threads.

#ifndef QGEMM_SERVER_RPC_QGEMM_SERVICE_H_
#define QGEMM_SERVER_RPC_QGEMM_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "server/rpc/rpc_environment.h"

namespace qgemm {

// The life of the service, in this order: Register, the server is built,
// Start, BeginDrain, the server is shut down, Join.
class QgemmService {
 public:
  // What `environment` points to must outlive the service; its service and
  // live_calls are set here.
  explicit QgemmService(RpcEnvironment environment);
  ~QgemmService();

  // Adds the service and its queues.
  void Register(grpc::ServerBuilder* builder);

  // Serves.
  void Start();

  // Refuses new calls and ends uploads with UNAVAILABLE.
  void BeginDrain();

  // Returns when every call has ended and every thread has gone. The server
  // must be shut down, or never have been built.
  void Join();

 private:
  class Handlers;
  const std::unique_ptr<Handlers> handlers_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_QGEMM_SERVICE_H_
