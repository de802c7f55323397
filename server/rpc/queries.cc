// SPDX-License-Identifier: Apache-2.0
//
// Answers from the store and the backend's description.

#include "server/rpc/queries.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "rpc/message_limits.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

// Every name that WeightsInfo.format may have.
constexpr const char* kFormats[] = {"kbit2", "kbit3",   "kbit4", "kbit5",
                                    "q4_0",  "ternary", "int4",  "dense"};

constexpr int64_t kMaxPageLayers = 10000;
constexpr int64_t kMaxPageBytes = int64_t{1} << 20;
// Layers that are described under one hold of the store's lock, which every
// Gemm takes.
constexpr int64_t kLayersALock = 128;
// Tag and length of one element of a repeated field, at most.
constexpr int64_t kFieldBytes = 8;

// Room that is left in a page.
struct PageRoom {
  int64_t layers = 0;
  int64_t bytes = 0;
};

absl::StatusOr<PageRoom> RoomOf(const v1::ListWeightsRequest& request,
                                int64_t max_message_bytes) {
  ASSIGN_OR_RETURN(
      const int64_t page_size,
      CountFromWire("page_size", request.page_size(), kMaxPageLayers));
  const std::string& token = request.page_token();
  if (!token.empty() && token[0] != '0' && token[0] != '1') {
    return absl::InvalidArgumentError(
        "page_token is not the next_page_token of a page; leave it empty for "
        "the first page");
  }
  PageRoom room;
  room.layers =
      page_size == 0 ? std::numeric_limits<int64_t>::max() : page_size;
  room.bytes = std::min(
      max_message_bytes - kMessageOverheadBytes,
      page_size == 0 && token.empty() ? kDefaultFragmentBytes : kMaxPageBytes);
  return room;
}

}  // namespace

Queries::Queries(const Backend* backend, WeightStore* store, const Clock* clock,
                 const RpcOptions& options)
    : backend_(backend),
      store_(store),
      clock_(clock),
      options_(options),
      started_(clock->Now()) {}

absl::Status Queries::Unload(const v1::UnloadWeightsRequest& request,
                             v1::UnloadWeightsResponse* response) const {
  ASSIGN_OR_RETURN(const bool freed,
                   store_->Unload(request.weights(), request.if_match()));
  response->set_freed(freed);
  return absl::OkStatus();
}

absl::Status Queries::List(const v1::ListWeightsRequest& request,
                           v1::ListWeightsResponse* response) const {
  ASSIGN_OR_RETURN(PageRoom room, RoomOf(request, options_.max_message_bytes));
  std::string place = request.page_token();
  for (bool is_last = false; !is_last;) {
    const WeightsPage part = store_->List(
        place, std::min(kLayersALock, std::max(int64_t{1}, room.layers)));
    for (const WeightsPage::Entry& entry : part.entries) {
      v1::WeightsInfo info;
      ToMessage(entry.named, &info);
      const int64_t bytes =
          static_cast<int64_t>(info.ByteSizeLong()) + kFieldBytes;
      // A page has a layer at least, or the next one would be the same.
      const bool fits = bytes <= room.bytes || response->weights().empty();
      if (room.layers == 0 || !fits) {
        response->set_next_page_token(place);
        return absl::OkStatus();
      }
      --room.layers;
      room.bytes -= bytes;
      place = entry.place;
      *response->add_weights() = std::move(info);
    }
    is_last = part.is_last;
  }
  return absl::OkStatus();
}

absl::Status Queries::Get(const v1::GetWeightsRequest& request,
                          v1::GetWeightsResponse* response) const {
  ASSIGN_OR_RETURN(const NamedWeights listing,
                   store_->Get(request.weights(), request.names_after()));
  ToMessage(listing, response->mutable_weights());
  return absl::OkStatus();
}

absl::Status Queries::ServerInfo(const v1::GetServerInfoRequest&,
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
  response->set_weights_bytes(store_->reserved_bytes());
  response->set_weights_budget_bytes(store_->budget_bytes());
  for (const char* format : kFormats) response->add_formats(format);
  response->set_uptime_ns(absl::ToInt64Nanoseconds(
      std::max(clock_->Now() - started_, absl::ZeroDuration())));
  response->set_process_cpu_ns(absl::ToInt64Nanoseconds(ProcessCpu()));
  return absl::OkStatus();
}

}  // namespace qgemm
