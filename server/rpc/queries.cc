// SPDX-License-Identifier: Apache-2.0
//
// Answers from the store and the backend's description.

#include "server/rpc/queries.h"

#include <algorithm>

#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Every name that WeightsInfo.format may have.
constexpr const char* kFormats[] = {"kbit2", "kbit3",   "kbit4", "kbit5",
                                    "q4_0",  "ternary", "int4",  "dense"};

}  // namespace

Queries::Queries(const RpcEnvironment* environment)
    : environment_(environment), started_(environment->clock->Now()) {}

absl::Status Queries::Unload(const v1::UnloadWeightsRequest& request,
                             v1::UnloadWeightsResponse* response) const {
  ASSIGN_OR_RETURN(const bool freed,
                   environment_->store->Unload(request.weights()));
  response->set_freed(freed);
  return absl::OkStatus();
}

absl::Status Queries::List(const v1::ListWeightsRequest&,
                           v1::ListWeightsResponse* response) const {
  for (const WeightsListing& listing : environment_->store->List()) {
    ToMessage(listing, response->add_weights());
  }
  return absl::OkStatus();
}

absl::Status Queries::Get(const v1::GetWeightsRequest& request,
                          v1::GetWeightsResponse* response) const {
  ASSIGN_OR_RETURN(const WeightsListing listing,
                   environment_->store->Describe(request.weights()));
  ToMessage(listing, response->mutable_weights());
  return absl::OkStatus();
}

absl::Status Queries::ServerInfo(const v1::GetServerInfoRequest&,
                                 v1::GetServerInfoResponse* response) const {
  const BackendDescription description = environment_->backend->describe();
  const BackendLimits limits = environment_->backend->limits();
  const RpcOptions& options = environment_->options;
  response->set_version(options.version);
  response->set_backend(description.name);
  response->set_device(description.device);
  response->set_device_detail(description.detail);
  response->set_parallelism(description.parallelism);
  response->set_max_message_bytes(options.max_message_bytes);
  response->set_max_stream_operand_bytes(options.stream.max_operand_bytes);
  response->set_max_n(std::min(options.weights_limits.max_n, limits.max_n));
  response->set_max_k(std::min(options.weights_limits.max_k, limits.max_k));
  response->set_max_m(limits.max_batch_rows);
  response->set_weights_bytes(environment_->store->reserved_bytes());
  response->set_weights_budget_bytes(environment_->store->budget_bytes());
  for (const char* format : kFormats) response->add_formats(format);
  response->set_uptime_seconds(absl::ToInt64Seconds(
      std::max(environment_->clock->Now() - started_, absl::ZeroDuration())));
  response->set_process_cpu_us(absl::ToInt64Microseconds(ProcessCpu()));
  return absl::OkStatus();
}

}  // namespace qgemm
