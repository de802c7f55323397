// SPDX-License-Identifier: Apache-2.0
//
// Answers of the unary RPCs other than Gemm.

#ifndef QGEMM_SERVER_RPC_QUERIES_H_
#define QGEMM_SERVER_RPC_QUERIES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "kernels/matrix/backend.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/access/principal.h"
#include "server/programs/program_store.h"
#include "server/rpc/rpc_options.h"
#include "server/weights/layer_loader.h"
#include "server/weights/upload_table.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Parts that a server may lack.
struct QueryParts {
  UploadTable* uploads = nullptr;  // that can be continued
  LayerLoader* loader = nullptr;   // of a state directory
};

// Each answer is for the caller, and tells nothing of what that may not read.
// Thread-safe.
class Queries {
 public:
  // All must outlive the object.
  Queries(const Backend* backend, WeightStore* store, const Clock* clock,
          const RpcOptions& options, const QueryParts& parts = {});

  // May read the upload from the disk.
  absl::Status QueryUpload(const std::shared_ptr<const Principal>& caller,
                           const v1::QueryUploadRequest& request,
                           v1::QueryUploadResponse* response) const;
  absl::Status FindMissing(const Principal* caller,
                           const v1::FindMissingWeightsRequest& request,
                           v1::FindMissingWeightsResponse* response) const;
  absl::Status Pin(const Principal* caller,
                   const v1::PinWeightsRequest& request,
                   v1::PinWeightsResponse* response) const;
  absl::Status Touch(const Principal* caller,
                     const v1::TouchWeightsRequest& request,
                     v1::TouchWeightsResponse* response) const;
  absl::Status Unload(const Principal* caller,
                      const v1::UnloadWeightsRequest& request,
                      v1::UnloadWeightsResponse* response) const;
  absl::Status List(const Principal* caller,
                    const v1::ListWeightsRequest& request,
                    v1::ListWeightsResponse* response) const;
  absl::Status Get(const Principal* caller,
                   const v1::GetWeightsRequest& request,
                   v1::GetWeightsResponse* response) const;
  absl::Status ServerInfo(const Principal* caller,
                          const v1::GetServerInfoRequest& request,
                          v1::GetServerInfoResponse* response) const;

 private:
  // Begins to bring what is on the disk alone, and returns how many of the
  // layers are in memory.
  int64_t Bring(const WeightStore::Layers& layers) const;

  const Backend* const backend_;
  WeightStore* const store_;
  const Clock* const clock_;
  const RpcOptions options_;
  const QueryParts parts_;
  const absl::Time started_;
};

// The same for the RPCs about programs but Run. // Thread-safe.
class ProgramQueries {
 public:
  // All must outlive the object. No answer is longer than `max_message_bytes`.
  // `loader` is ProgramLoader's.
  ProgramQueries(Backend* backend, WeightStore* weights, ProgramStore* programs,
                 int64_t max_message_bytes, LayerLoader* loader = nullptr);

  // Takes milliseconds for a program with 1 MiB of constants, and as long as
  // the backend compiles.
  absl::Status Load(const Principal* caller,
                    const v1::LoadProgramRequest& request,
                    v1::LoadProgramResponse* response) const;
  absl::Status Unload(const Principal* caller,
                      const v1::UnloadProgramRequest& request,
                      v1::UnloadProgramResponse* response) const;
  absl::Status List(const Principal* caller,
                    const v1::ListProgramsRequest& request,
                    v1::ListProgramsResponse* response) const;
  absl::Status Get(const Principal* caller,
                   const v1::GetProgramRequest& request,
                   v1::GetProgramResponse* response) const;
  // Sets the fields about programs.
  void AddServerInfo(const Principal* caller,
                     v1::GetServerInfoResponse* response) const;

 private:
  Backend* const backend_;
  ProgramStore* const programs_;
  const ProgramLoader loader_;
  const int64_t max_message_bytes_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_QUERIES_H_
