// SPDX-License-Identifier: Apache-2.0
//
// What the unary RPCs other than Gemm answer.

#ifndef QGEMM_SERVER_RPC_QUERIES_H_
#define QGEMM_SERVER_RPC_QUERIES_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/rpc_environment.h"

namespace qgemm {

// Thread-safe.
class Queries {
 public:
  // `environment` must outlive the object.
  explicit Queries(const RpcEnvironment* environment);

  absl::Status Unload(const v1::UnloadWeightsRequest& request,
                      v1::UnloadWeightsResponse* response) const;
  absl::Status List(const v1::ListWeightsRequest& request,
                    v1::ListWeightsResponse* response) const;
  absl::Status Get(const v1::GetWeightsRequest& request,
                   v1::GetWeightsResponse* response) const;
  absl::Status ServerInfo(const v1::GetServerInfoRequest& request,
                          v1::GetServerInfoResponse* response) const;

 private:
  const RpcEnvironment* const environment_;
  const absl::Time started_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_QUERIES_H_
