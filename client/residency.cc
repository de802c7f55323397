// SPDX-License-Identifier: Apache-2.0
//
// Calls about what a server has in memory, and whether it serves.

#include <algorithm>
#include <limits>

#include "base/status_macros.h"
#include "client/client_impl.h"
#include "grpc/health/v1/health.pb.h"
#include "qgemm/client.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {
namespace {

v1::PinWeightsRequest ToPinRequest(absl::Span<const std::string> weights) {
  v1::PinWeightsRequest request;
  for (const std::string& name_or_id : weights) {
    request.add_weights(name_or_id);
  }
  return request;
}

}  // namespace

absl::Status Client::UnloadWeightsToDisk(absl::string_view name_or_id,
                                         absl::Time deadline,
                                         absl::string_view if_match) {
  v1::UnloadWeightsRequest request;
  request.set_weights(std::string(name_or_id));
  request.set_if_match(std::string(if_match));
  request.set_keep_on_disk(true);
  return impl_
      ->CallEveryServer<v1::UnloadWeightsResponse>(
          "/qgemm.v1.Qgemm/UnloadWeights", request, deadline)
      .status();
}

absl::StatusOr<int64_t> Client::UnloadWeightsWithPrefix(
    absl::string_view prefix, absl::Time deadline) {
  v1::UnloadWeightsRequest request;
  request.set_prefix(std::string(prefix));
  int64_t most = 0;
  for (bool has_more = true; has_more;) {
    ASSIGN_OR_RETURN(const auto responses,
                     impl_->CallEveryServer<v1::UnloadWeightsResponse>(
                         "/qgemm.v1.Qgemm/UnloadWeights", request, deadline));
    int64_t names = 0;
    has_more = false;
    for (const auto& response : responses) {
      names = std::max<int64_t>(names, response.names());
      has_more |= response.has_more();
    }
    most += names;
  }
  return most;
}

absl::Status Client::PinWeights(absl::Span<const std::string> weights,
                                absl::Time deadline) {
  return impl_
      ->CallEveryServer<v1::PinWeightsResponse>("/qgemm.v1.Qgemm/PinWeights",
                                                ToPinRequest(weights), deadline)
      .status();
}

absl::Status Client::UnpinWeights(absl::Span<const std::string> weights,
                                  absl::Time deadline) {
  v1::PinWeightsRequest request = ToPinRequest(weights);
  request.set_unpin(true);
  return impl_
      ->CallEveryServer<v1::PinWeightsResponse>("/qgemm.v1.Qgemm/PinWeights",
                                                request, deadline)
      .status();
}

absl::StatusOr<int64_t> Client::TouchWeights(
    absl::Span<const std::string> weights, absl::Duration lease,
    absl::Time deadline) {
  if (lease < absl::ZeroDuration() || lease > absl::Hours(1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lease = ", absl::FormatDuration(lease), "; it is 0 to 1h"));
  }
  v1::TouchWeightsRequest request;
  for (const std::string& name_or_id : weights) {
    request.add_weights(name_or_id);
  }
  request.set_lease_ns(absl::ToInt64Nanoseconds(lease));
  ASSIGN_OR_RETURN(const auto responses,
                   impl_->CallEveryServer<v1::TouchWeightsResponse>(
                       "/qgemm.v1.Qgemm/TouchWeights", request, deadline));
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const auto& response : responses) {
    fewest = std::min<int64_t>(fewest, response.resident());
  }
  return fewest;
}

absl::StatusOr<bool> Client::IsServing(absl::Time deadline) {
  using grpc::health::v1::HealthCheckResponse;
  ASSIGN_OR_RETURN(const auto responses,
                   impl_->CallEveryServer<HealthCheckResponse>(
                       "/grpc.health.v1.Health/Check",
                       grpc::health::v1::HealthCheckRequest(), deadline));
  return std::all_of(responses.begin(), responses.end(),
                     [](const HealthCheckResponse& response) {
                       return response.status() == HealthCheckResponse::SERVING;
                     });
}

}  // namespace qgemm
