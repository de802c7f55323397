// SPDX-License-Identifier: Apache-2.0
//
// Each rule is the least key of the candidates.

#include "server/scheduling/batching_policy.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/checked_math.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"

namespace qgemm {
namespace {

constexpr int64_t kNone = -1;

// Queues from which one is chosen.
struct Candidates {
  absl::Span<const QueueSnapshot> queues;
  bool chunk_may_launch;

  bool Has(const QueueSnapshot& queue) const {
    return chunk_may_launch || queue.kind == LaunchKind::kMerged;
  }
};

// Index of the candidate with the least key; kNone if there is none. A key
// without a value excludes the queue.
template <typename KeyOf>
int64_t Least(const Candidates& candidates, const KeyOf& key_of) {
  int64_t best = kNone;
  decltype(key_of(QueueSnapshot())) best_key;
  for (size_t i = 0; i < candidates.queues.size(); ++i) {
    const QueueSnapshot& queue = candidates.queues[i];
    if (!candidates.Has(queue)) continue;
    const auto key = key_of(queue);
    if (!key.has_value() || (best != kNone && !(*key < *best_key))) continue;
    best = static_cast<int64_t>(i);
    best_key = key;
  }
  return best;
}

int64_t Urgent(const Candidates& candidates, absl::Time bound) {
  return Least(candidates, [&](const QueueSnapshot& queue) {
    return queue.earliest_deadline < bound
               ? std::make_optional(queue.earliest_deadline)
               : std::nullopt;
  });
}

int64_t Aged(const Candidates& candidates, absl::Time bound) {
  return Least(candidates, [&](const QueueSnapshot& queue) {
    return queue.oldest <= bound ? std::make_optional(queue.oldest)
                                 : std::nullopt;
  });
}

// Lower is better, from the first to the last.
using Rank = std::tuple<int, int64_t, int64_t, absl::Time>;

constexpr int64_t kNotBehind = std::numeric_limits<int64_t>::max();

int64_t Preferred(const Candidates& candidates, const PolicyOptions& options) {
  return Least(candidates, [&](const QueueSnapshot& queue) {
    const bool chases = options.order == BatchOrder::kChase;
    const int64_t least_rows =
        options.order == BatchOrder::kFullest ? 1 : options.tile_rows;
    const bool counts_rows =
        queue.kind == LaunchKind::kMerged && queue.rows >= least_rows;
    return std::make_optional(
        Rank(-static_cast<int>(queue.priority),
             chases ? queue.layers_behind.value_or(kNotBehind) : 0,
             counts_rows ? -queue.rows : 0, queue.oldest));
  });
}

// Rows that keep within the bound of a launch; at least 1.
int64_t BoundedRows(const AdmittedRequest& request,
                    const BatchingOptions& options) {
  if (options.max_multiply_adds == 0) {
    return std::numeric_limits<int64_t>::max();
  }
  const int64_t row = std::max<int64_t>(request.row_multiply_adds(), 1);
  return std::max(options.max_multiply_adds / row, int64_t{1});
}

// The least power of two rows after which both operands of a product are at a
// 64-byte boundary again; divides kChunkRowAlignment. A part of a program's
// request begins where the request does.
int64_t AlignedRows(const AdmittedRequest& request) {
  if (request.program != nullptr) return 1;
  const int64_t a_bytes =
      request.weights->k() * SizeOf(request.signature.a_type);
  const int64_t c_bytes =
      request.weights->n() * SizeOf(request.signature.c_type);
  int64_t rows = 1;
  while (rows * a_bytes % 64 != 0 || rows * c_bytes % 64 != 0) rows *= 2;
  return rows;
}

}  // namespace

std::optional<QueueChoice> NextQueue(absl::Span<const QueueSnapshot> queues,
                                     const DecisionContext& context,
                                     const PolicyOptions& options) {
  const Candidates candidates = {queues, context.chunk_may_launch};
  const int64_t urgent =
      Urgent(candidates, context.now + options.deadline_slack);
  const int64_t aged = Aged(candidates, context.now - options.age_cap);
  const bool urgent_may =
      urgent != kNone &&
      (aged == kNone || context.last != LaunchReason::kUrgent);
  if (urgent_may) return QueueChoice{urgent, LaunchReason::kUrgent};
  if (aged != kNone && context.last != LaunchReason::kAged) {
    return QueueChoice{aged, LaunchReason::kAged};
  }
  const int64_t preferred = Preferred(candidates, options);
  if (preferred == kNone) return std::nullopt;
  return QueueChoice{preferred, LaunchReason::kPreferred};
}

int64_t RequestsToLaunch(absl::Span<const int64_t> rows_of_requests,
                         int64_t tile_rows) {
  int64_t best_count = 0;
  int64_t best_rows = 0;
  int64_t best_cost = 1;
  int64_t rows = 0;
  for (size_t i = 0; i < rows_of_requests.size(); ++i) {
    rows += rows_of_requests[i];
    const int64_t cost = 1 + CeilDiv(rows, tile_rows);
    if (rows * best_cost < best_rows * cost) continue;
    best_count = static_cast<int64_t>(i) + 1;
    best_rows = rows;
    best_cost = cost;
  }
  return best_count;
}

int64_t RequestsOfTurn(absl::Span<const int64_t> rows_of_requests,
                       int64_t clients, int64_t max_rows) {
  const auto requests = static_cast<int64_t>(rows_of_requests.size());
  int64_t rows = 0;
  int64_t of_turn = 0;
  for (const int64_t more : rows_of_requests) {
    rows += more;
    if (2 * rows <= max_rows) ++of_turn;
  }
  const bool fits_in_two =
      rows * std::max(clients, requests) <= max_rows * requests;
  return fits_in_two && of_turn > 0 ? of_turn : requests;
}

int64_t MergedRows(const AdmittedRequest& request,
                   const BatchingOptions& options) {
  return std::min(options.max_rows, BoundedRows(request, options));
}

LaunchKind KindOf(const AdmittedRequest& request,
                  const BatchingOptions& options) {
  return request.m > MergedRows(request, options) ? LaunchKind::kChunk
                                                  : LaunchKind::kMerged;
}

int64_t RowsPerLaunch(const AdmittedRequest& request,
                      const BatchingOptions& options) {
  if (KindOf(request, options) == LaunchKind::kMerged) return request.m;
  const int64_t chunk =
      ChunkRows(request.m, request.row_multiply_adds(), options.chunks);
  const int64_t bound = BoundedRows(request, options);
  if (chunk <= bound) return chunk;
  const int64_t aligned = AlignedRows(request);
  return std::max(bound / aligned, int64_t{1}) * aligned;
}

int64_t RowCost(const AdmittedRequest& request) {
  return std::max<int64_t>(
      CeilDiv(request.row_multiply_adds(), kRowMultiplyAdds), 1);
}

bool LaunchesAlone(const AdmittedRequest& request, BatchOrder order) {
  return order == BatchOrder::kChase && RowCost(request) > 1;
}

int64_t LeastLaunchCost(const AdmittedRequest& request,
                        const BatchingOptions& options, int64_t tile_rows) {
  const int64_t rows = std::min(tile_rows, MergedRows(request, options));
  return std::max(tile_rows, RowCost(request) * rows);
}

int64_t ChunkRows(int64_t m, int64_t row_multiply_adds,
                  const ChunkLimits& limits) {
  int64_t most = limits.max_rows;
  if (limits.max_multiply_adds > 0) {
    most = std::min(most, limits.max_multiply_adds /
                              std::max<int64_t>(row_multiply_adds, 1));
  }
  most = std::max({most, limits.least_rows, kChunkRowAlignment}) /
         kChunkRowAlignment * kChunkRowAlignment;
  const int64_t chunks = CeilDiv(m, most);
  return CeilDiv(CeilDiv(m, chunks), kChunkRowAlignment) * kChunkRowAlignment;
}

}  // namespace qgemm
