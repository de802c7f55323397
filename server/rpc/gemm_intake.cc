// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/gemm_intake.h"

#include "base/status_macros.h"
#include "server/rpc/translate.h"

namespace qgemm {

absl::StatusOr<GemmIntake> TakeGemm(const RpcEnvironment& environment,
                                    const v1::GemmRequest& message,
                                    int64_t a_bytes,
                                    const ResultLimit& result_limit,
                                    const std::string& peer) {
  GemmIntake intake;
  intake.request = std::make_unique<GemmRequest>();
  GemmRequest& request = *intake.request;
  ASSIGN_OR_RETURN(request.signature, ToSignature(message));
  ASSIGN_OR_RETURN(request.priority, ToPriority(message.priority()));
  RETURN_IF_ERROR(CheckClientId(message.client_id()));
  request.client = message.client_id().empty() ? peer : message.client_id();
  ASSIGN_OR_RETURN(const auto weights,
                   environment.store->Find(message.weights()));
  request.weights = weights->resident;
  GemmShape shape;
  shape.m = message.m();
  shape.n = request.weights->n();
  shape.k = request.weights->k();
  shape.a_bytes = a_bytes;
  shape.signature = request.signature;
  ASSIGN_OR_RETURN(
      intake.plan,
      PlanGemm(shape,
               {result_limit, environment.backend->limits().max_batch_rows}));
  RETURN_IF_ERROR(
      environment.backend->CheckSupport(*request.weights, request.signature));
  request.m = intake.plan.m;
  return intake;
}

absl::Status CheckRoom(const RpcEnvironment& environment,
                       const GemmIntake& intake) {
  QueueDemand demand;
  demand.client = intake.request->client;
  demand.rows = intake.request->m;
  demand.operand_bytes = intake.plan.a_bytes + intake.plan.c_bytes;
  return environment.scheduler->CheckRoom(demand);
}

}  // namespace qgemm
