// SPDX-License-Identifier: Apache-2.0
//
// One unary call that computes rows: a Gemm or a Run, from its message to its
// answer. What they name and answer is theirs (rows_handler.cc).

#ifndef QGEMM_SERVER_RPC_ROWS_CALL_H_
#define QGEMM_SERVER_RPC_ROWS_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/completion_queue.h"
#include "server/rpc/gemm_request_builder.h"
#include "server/rpc/operands.h"
#include "server/rpc/payload_call.h"
#include "server/rpc/server_call.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

class RowsCall : public PayloadCall {
 protected:
  // All must outlive the call.
  RowsCall(const CallServices& services, const GemmServices& gemm,
           const Rpc& rpc, CompletionQueue* queue)
      : PayloadCall(services, rpc, queue),
        services_(services),
        gemm_(gemm),
        method_(rpc.method) {}

  // The request's message, which the payload may borrow from.
  virtual google::protobuf::Message* message() = 0;
  // Checks it, once it has been read with an operand of so many bytes.
  virtual absl::StatusOr<GemmRequestBuilder> Parse(int64_t operand_bytes,
                                                   const Peer& peer) = 0;
  // Answers with `c_bytes` of operands.c; `total` is Elapsed().
  virtual void AnswerRows(const GemmTimings& timings, absl::Duration total,
                          StagedOperands operands, int64_t c_bytes) = 0;

 private:
  void Serve() override;
  void CallerLeft() override { *cancelled_ = true; }

  // Moves the operand to the backend's memory.
  void StageAndEnqueue(GemmRequestBuilder builder);
  GemmCaller Caller(int64_t c_bytes);
  void OnComputed(const absl::Status& status, const GemmTimings& timings,
                  std::unique_ptr<AdmittedRequest> ended, int64_t c_bytes);

  const CallServices& services_;
  const GemmServices& gemm_;
  const absl::string_view method_;
  ClientCharge charge_;  // from the admission until the answer has it
  const std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_ROWS_CALL_H_
