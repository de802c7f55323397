// SPDX-License-Identifier: Apache-2.0
//
// Answers from the store and the backend's description.

#include "server/rpc/queries.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "server/rpc/list_pages.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Every name that WeightsInfo.format may have.
constexpr const char* kFormats[] = {"kbit2", "kbit3",   "kbit4", "kbit5",
                                    "q4_0",  "ternary", "int4",  "dense"};

// Fits kMaxQueryBytes.
constexpr int kMostIds = 900;

// The same of names.
constexpr int kMostWeights = 400;
constexpr int64_t kMostDropped = 1000;
constexpr absl::Duration kLongestLease = absl::Hours(1);

absl::Status CheckCount(int weights) {
  if (weights <= kMostWeights) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "weights has ", weights, " entries; at most ", kMostWeights));
}

absl::Status CheckId(absl::string_view field, absl::string_view id) {
  if (LooksLikeId(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " = ", Quoted(id), ": an id has 64 hexadecimal digits"));
}

}  // namespace

Queries::Queries(const Backend* backend, WeightStore* store, const Clock* clock,
                 const RpcOptions& options, const QueryParts& parts)
    : backend_(backend),
      store_(store),
      clock_(clock),
      options_(options),
      parts_(parts),
      started_(clock->Now()) {}

absl::Status Queries::QueryUpload(
    const std::shared_ptr<const Principal>& caller,
    const v1::QueryUploadRequest& request,
    v1::QueryUploadResponse* response) const {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  if (store_->Find(caller.get(), request.id()).ok()) {
    response->set_complete(true);
    return absl::OkStatus();
  }
  if (parts_.uploads == nullptr) return absl::OkStatus();
  const std::string bytes = absl::HexStringToBytes(request.id());
  Sha256Digest id;
  std::copy(bytes.begin(), bytes.end(), id.begin());
  ASSIGN_OR_RETURN(
      const int64_t received,
      parts_.uploads->Received(caller, id, options_.weights_limits));
  response->set_committed_bytes(received);
  return absl::OkStatus();
}

absl::Status Queries::FindMissing(
    const Principal* caller, const v1::FindMissingWeightsRequest& request,
    v1::FindMissingWeightsResponse* response) const {
  if (request.ids_size() > kMostIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids has ", request.ids_size(), " entries; at most ", kMostIds));
  }
  for (int i = 0; i < request.ids_size(); ++i) {
    RETURN_IF_ERROR(CheckId(absl::StrCat("ids[", i, "]"), request.ids(i)));
  }
  for (const std::string& id : request.ids()) {
    if (!store_->FindToUse(caller, id).ok()) response->add_missing(id);
  }
  return absl::OkStatus();
}

int64_t Queries::Bring(const WeightStore::Layers& layers) const {
  int64_t resident = 0;
  for (const auto& layer : layers) {
    if (layer->resident != nullptr) {
      ++resident;
    } else if (parts_.loader != nullptr) {
      parts_.loader->Bring(layer->id);
    }
  }
  return resident;
}

absl::Status Queries::Pin(const Principal* caller,
                          const v1::PinWeightsRequest& request,
                          v1::PinWeightsResponse* response) const {
  RETURN_IF_ERROR(CheckCount(request.weights_size()));
  const std::vector<std::string> weights(request.weights().begin(),
                                         request.weights().end());
  if (request.unpin()) return store_->Unpin(caller, weights);
  ASSIGN_OR_RETURN(const auto layers, store_->Pin(caller, weights));
  response->set_resident(Bring(layers));
  return absl::OkStatus();
}

absl::Status Queries::Touch(const Principal* caller,
                            const v1::TouchWeightsRequest& request,
                            v1::TouchWeightsResponse* response) const {
  RETURN_IF_ERROR(CheckCount(request.weights_size()));
  if (request.lease_ns() >
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(kLongestLease))) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease_ns = ", request.lease_ns(), "; at most ",
                     absl::ToInt64Nanoseconds(kLongestLease)));
  }
  if (request.lease_ns() > 0 && caller != nullptr &&
      !caller->rights.Has(Right::kLoad)) {
    return absl::PermissionDeniedError(
        absl::StrCat("client ", caller->client_id, " lacks the right \"",
                     NameOf(Right::kLoad), "\", which lease_ns needs"));
  }
  const std::vector<std::string> weights(request.weights().begin(),
                                         request.weights().end());
  ASSIGN_OR_RETURN(
      const auto layers,
      store_->Touch(caller, weights, absl::Nanoseconds(request.lease_ns())));
  response->set_resident(Bring(layers));
  return absl::OkStatus();
}

absl::Status Queries::Unload(const Principal* caller,
                             const v1::UnloadWeightsRequest& request,
                             v1::UnloadWeightsResponse* response) const {
  if (!request.prefix().empty()) {
    if (!request.weights().empty() || !request.if_match().empty() ||
        request.keep_on_disk()) {
      return absl::InvalidArgumentError(
          "prefix is set beside weights, if_match or keep_on_disk; set it "
          "alone");
    }
    ASSIGN_OR_RETURN(
        const DroppedNames dropped,
        store_->UnloadPrefix(caller, request.prefix(), kMostDropped));
    response->set_names(dropped.names);
    response->set_has_more(dropped.has_more);
    return absl::OkStatus();
  }
  if (request.keep_on_disk()) {
    return store_->UnloadToDisk(caller, request.weights(), request.if_match());
  }
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
      std::move(room),
      [&](absl::string_view place, int64_t most) {
        return store_->List(caller, place, most, request.prefix());
      },
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
