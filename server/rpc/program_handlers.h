// SPDX-License-Identifier: Apache-2.0
//
// Handlers of the RPCs about programs but Run, and the rights that queries
// need.

#ifndef QGEMM_SERVER_RPC_PROGRAM_HANDLERS_H_
#define QGEMM_SERVER_RPC_PROGRAM_HANDLERS_H_

#include "base/byte_budget.h"
#include "base/worker_pool.h"
#include "rpc/completion_queue.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/queries.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/server_call.h"
#include "server/rpc/unary_handler.h"
#include "server/rpc/upload_message.h"

namespace qgemm {

inline constexpr RpcAccess kLoadAccess = RpcAccess::Needs(Right::kLoad);
inline constexpr RpcAccess kReadAccess =
    RpcAccess::NeedsEither(Right::kCompute, Right::kLoad);

// Thread-safe. Must outlive the calls it accepts.
class ProgramHandlers {
 public:
  // `service` must outlive the handlers. `lists` bounds the answers of
  // ListPrograms.
  ProgramHandlers(const CallServices& services, const ProgramQueries& queries,
                  AsyncQgemm* service, const LongAnswers& lists);

  // Waits for one more call of each on `queue`; each accepted call makes room
  // for the next.
  void Accept(CompletionQueue* queue);

  const ProgramQueries& queries() const { return queries_; }

 private:
  template <typename Request, typename Response>
  using Query = UnaryHandler<AsyncQgemm, Request, Response>;
  using Load = UnaryHandler<AsyncQgemm, v1::LoadProgramRequest,
                            v1::LoadProgramResponse, &ReadProgramMessage>;

  const ProgramQueries queries_;
  ByteBudget waiting_programs_;
  // The hashes of a MiB of constants, and a compilation, would hold up a
  // completion queue.
  WorkerPool load_executor_{1};
  Load load_;
  Query<v1::UnloadProgramRequest, v1::UnloadProgramResponse> unload_;
  Query<v1::ListProgramsRequest, v1::ListProgramsResponse> list_;
  Query<v1::GetProgramRequest, v1::GetProgramResponse> get_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_PROGRAM_HANDLERS_H_
