// SPDX-License-Identifier: Apache-2.0
//
// Answers from the store and the backend's description.

#include "server/rpc/queries.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "server/rpc/list_pages.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Every name that WeightsInfo.format may have.
constexpr const char* kFormats[] = {"kbit2", "kbit3",   "kbit4", "kbit5",
                                    "q4_0",  "ternary", "int4",  "dense"};

}  // namespace

Queries::Queries(const Backend* backend, WeightStore* store, const Clock* clock,
                 const RpcOptions& options)
    : backend_(backend),
      store_(store),
      clock_(clock),
      options_(options),
      started_(clock->Now()) {}

absl::Status Queries::Unload(const Principal* caller,
                             const v1::UnloadWeightsRequest& request,
                             v1::UnloadWeightsResponse* response) const {
  ASSIGN_OR_RETURN(const bool freed, store_->Unload(caller, request.weights(),
                                                    request.if_match()));
  response->set_freed(freed);
  return absl::OkStatus();
}

absl::Status Queries::List(const Principal* caller,
                           const v1::ListWeightsRequest& request,
                           v1::ListWeightsResponse* response) const {
  ASSIGN_OR_RETURN(PageRoom room, RoomOf(request, options_.max_message_bytes));
  FillPage(
      caller, std::move(room), *store_,
      [](const NamedWeights& named, v1::WeightsInfo* info) {
        ToMessage(named, info);
      },
      response->mutable_weights(), response->mutable_next_page_token());
  return absl::OkStatus();
}

absl::Status Queries::Get(const Principal* caller,
                          const v1::GetWeightsRequest& request,
                          v1::GetWeightsResponse* response) const {
  ASSIGN_OR_RETURN(
      const NamedWeights listing,
      store_->Get(caller, request.weights(), request.names_after()));
  ToMessage(listing, response->mutable_weights());
  return absl::OkStatus();
}

absl::Status Queries::ServerInfo(const Principal* caller,
                                 const v1::GetServerInfoRequest&,
                                 v1::GetServerInfoResponse* response) const {
  const BackendDescription description = backend_->describe();
  const BackendLimits limits = backend_->limits();
  response->set_version(options_.version);
  response->set_backend(description.name);
  response->set_device(description.device);
  response->set_device_detail(description.detail);
  response->set_parallelism(description.parallelism);
  response->set_max_message_bytes(options_.max_message_bytes);
  response->set_max_stream_operand_bytes(options_.stream.max_operand_bytes);
  response->set_max_n(std::min(options_.weights_limits.max_n, limits.max_n));
  response->set_max_k(std::min(options_.weights_limits.max_k, limits.max_k));
  response->set_max_m(limits.max_batch_rows);
  response->set_weights_bytes(store_->used_bytes(caller));
  response->set_weights_budget_bytes(store_->limit_bytes(caller));
  for (const char* format : kFormats) response->add_formats(format);
  response->set_uptime_ns(absl::ToInt64Nanoseconds(
      std::max(clock_->Now() - started_, absl::ZeroDuration())));
  response->set_process_cpu_ns(absl::ToInt64Nanoseconds(ProcessCpu()));
  return absl::OkStatus();
}

}  // namespace qgemm
