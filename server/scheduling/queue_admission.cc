// SPDX-License-Identifier: Apache-2.0
//
// Sizes are compared by subtraction from limits, so that none overflows.

#include "server/scheduling/queue_admission.h"

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// A bound of what one identity may have waiting, and its name.
struct ClientBound {
  int64_t limit = 0;  // 0: none
  absl::string_view name;
};

// The tighter one.
ClientBound Tighter(const ClientBound& one, const ClientBound& other) {
  if (one.limit <= 0) return other;
  return other.limit <= 0 || one.limit <= other.limit ? one : other;
}

struct ClientBounds {
  ClientBound rows;
  ClientBound bytes;
};

ClientBounds BoundsOf(const ClientQueueQuota& quota,
                      const QueueLimits& limits) {
  return {Tighter({limits.max_client_queued_rows, "--max_client_queued_rows"},
                  {quota.rows, "quota queued_rows"}),
          Tighter({limits.max_client_queued_bytes, "--max_client_queued_bytes"},
                  {quota.bytes, "quota queued_bytes"})};
}

Refusal TooLarge(absl::string_view what, int64_t value,
                 absl::string_view limit_name, int64_t limit) {
  return {absl::InvalidArgumentError(absl::StrCat(
              "the request has ", value, " ", what, ", the limit of ",
              limit_name, " is ", limit,
              ", so that it can never wait for a launch; split its rows over "
              "several requests")),
          DropReason::kTooLarge};
}

Refusal OverQuota(const QueueDemand& demand, const ClientBound& bound,
                  absl::string_view values) {
  return {absl::ResourceExhaustedError(
              absl::StrCat("\"", demand.identity,
                           "\" is over its quota, whatever its "
                           "client_id: ",
                           values, ", the limit (", bound.name, ") is ",
                           bound.limit, "; retry later")),
          DropReason::kQuota};
}

Refusal OverShare(const QueueDemand& demand, absl::string_view values,
                  absl::string_view limit_name, int64_t limit) {
  return {absl::ResourceExhaustedError(absl::StrCat(
              "\"", demand.identity, "\" is over its share of the queue: ",
              values, " for all (", limit_name, " is ", limit,
              ", and no client may fill more of it than it leaves free); "
              "retry later")),
          DropReason::kQuota};
}

Refusal QueueFull(absl::string_view values, int64_t limit) {
  return {absl::ResourceExhaustedError(
              absl::StrCat("the queue is full: ", values, ", the limit is ",
                           limit, "; retry later")),
          DropReason::kQueueFull};
}

Refusal CheckAlone(const QueueDemand& demand, const QueueLimits& limits,
                   const ClientBounds& bounds) {
  if (demand.operand_bytes > limits.max_queued_bytes) {
    return TooLarge("operand bytes", demand.operand_bytes, "--max_queued_bytes",
                    limits.max_queued_bytes);
  }
  const ClientBound& rows = bounds.rows;
  if (rows.limit > 0 && demand.rows > rows.limit) {
    return TooLarge("rows", demand.rows, rows.name, rows.limit);
  }
  const ClientBound& bytes = bounds.bytes;
  if (bytes.limit > 0 && demand.operand_bytes > bytes.limit) {
    return TooLarge("operand bytes", demand.operand_bytes, bytes.name,
                    bytes.limit);
  }
  return {};
}

Refusal CheckFull(const QueueDemand& demand, const QueueLimits& limits,
                  const QueueDepth& all) {
  if (all.requests >= limits.max_queued_requests) {
    return QueueFull(absl::StrCat(all.requests, " requests wait"),
                     limits.max_queued_requests);
  }
  if (demand.operand_bytes > limits.max_queued_bytes - all.bytes) {
    return QueueFull(
        absl::StrCat(all.bytes, " operand bytes wait and the request has ",
                     demand.operand_bytes),
        limits.max_queued_bytes);
  }
  return {};
}

Refusal CheckShare(const QueueDemand& demand, const QueueLimits& limits,
                   const QueueDepth& all, const QueueDepth& own) {
  const int64_t requests_left = limits.max_queued_requests - all.requests;
  if (own.requests >= requests_left) {
    return OverShare(demand,
                     absl::StrCat(own.requests,
                                  " of its requests wait and "
                                  "room is left for ",
                                  requests_left),
                     "--max_queued_requests", limits.max_queued_requests);
  }
  const int64_t bytes_left = limits.max_queued_bytes - all.bytes;
  if (own.bytes > bytes_left - demand.operand_bytes) {
    return OverShare(
        demand,
        absl::StrCat(own.bytes, " of its operand bytes wait, the request has ",
                     demand.operand_bytes, " and room is left for ",
                     bytes_left),
        "--max_queued_bytes", limits.max_queued_bytes);
  }
  return {};
}

Refusal CheckQuota(const QueueDemand& demand, const ClientBounds& bounds,
                   const QueueDepth& own) {
  const ClientBound& rows = bounds.rows;
  if (rows.limit > 0 && demand.rows > rows.limit - own.rows) {
    return OverQuota(
        demand, rows,
        absl::StrCat(own.rows, " of its rows wait and the request has ",
                     demand.rows));
  }
  const ClientBound& bytes = bounds.bytes;
  if (bytes.limit > 0 && demand.operand_bytes > bytes.limit - own.bytes) {
    return OverQuota(demand, bytes,
                     absl::StrCat(own.bytes,
                                  " of its operand bytes wait and the request "
                                  "has ",
                                  demand.operand_bytes));
  }
  return {};
}

}  // namespace

Refusal CheckQueueRoom(const QueueDemand& demand, const QueueLimits& limits,
                       const QueueDepth& all, const QueueDepth& own) {
  const ClientBounds bounds = BoundsOf(demand.quota, limits);
  Refusal refusal = CheckAlone(demand, limits, bounds);
  if (refusal.status.ok()) refusal = CheckFull(demand, limits, all);
  if (refusal.status.ok()) refusal = CheckQuota(demand, bounds, own);
  if (refusal.status.ok()) refusal = CheckShare(demand, limits, all, own);
  return refusal;
}

}  // namespace qgemm
