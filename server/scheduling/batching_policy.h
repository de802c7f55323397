// SPDX-License-Identifier: Apache-2.0
//
// Decides which queue launches next, where a batch ends and how a large
// request is cut. Decisions only, values in and values out: queues, clock and
// threads are elsewhere.

#ifndef QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
#define QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// Requests of few rows merge; those of more run in chunks, one at a time.
enum class LaunchFamily : uint8_t { kDecode, kBulk };

// What an order prefers among queues that are neither urgent nor old.
enum class BatchOrder : uint8_t {
  kOldest,  // the longest wait
  // The clients that are the fewest layers behind others, so that they catch
  // up and share launches from there on.
  kChase,
};

struct PolicyOptions {
  BatchOrder order = BatchOrder::kOldest;
  // A request that waits for longer goes before younger ones of any priority,
  // at every other launch at least.
  absl::Duration age_cap = absl::Milliseconds(1);
  // A request whose deadline is nearer goes before all.
  absl::Duration deadline_slack = absl::Milliseconds(2);
  // Rows that cost as much as one; a queue that has them goes before others.
  int64_t tile_rows = 16;
};

// What the policy sees of a queue that is not empty.
struct QueueSnapshot {
  LaunchFamily family = LaunchFamily::kDecode;
  Priority priority = Priority::kNormal;  // the highest that waits
  int64_t rows = 0;
  absl::Time oldest;  // since when its oldest request waits
  absl::Time earliest_deadline = absl::InfiniteFuture();
  // How many layers its clients are behind those of another waiting queue;
  // nothing if that is not known.
  std::optional<int64_t> layers_behind;
};

enum class LaunchReason : uint8_t { kUrgent, kAged, kPreferred };

// When a decision is made, and after what.
struct LaunchTurn {
  absl::Time now;
  LaunchReason last = LaunchReason::kPreferred;  // of the launch before
  bool bulk_may_launch = true;
};

struct QueueChoice {
  int64_t queue = 0;  // its place in the snapshot
  LaunchReason reason = LaunchReason::kPreferred;
};

// Which queue launches next; nothing if there is none. In this order: the
// earliest deadline within the slack; the oldest beyond the age cap; of the
// highest priority, by the options' order, a full tile, then the oldest. Since
// in an overload everything is urgent or old, neither of the first two rules
// decides twice in a row against a later one.
std::optional<QueueChoice> NextQueue(absl::Span<const QueueSnapshot> queues,
                                     const LaunchTurn& turn,
                                     const PolicyOptions& options);

// How many of the requests that fit in a batch run in it while more wait: as
// many as make the most rows a tile and launch, where a launch costs as much
// as a tile. 0 for none.
int64_t RequestsToLaunch(absl::Span<const int64_t> rows_of_requests,
                         int64_t tile_rows);

// Bounds of one launch of a large request.
struct ChunkLimits {
  int64_t max_rows = 512;
  int64_t max_multiply_adds = 0;  // 0 = no bound
};

// Chunks start at multiples of this, so that they are aligned to 64 bytes like
// the operands themselves, whatever k and n are.
inline constexpr int64_t kChunkRowAlignment = 32;

// Rows of each chunk but the last of an [m, k] by [k, n] product: chunks of
// about one size within the limits, or of the alignment if the limits are
// below it.
int64_t ChunkRows(int64_t m, int64_t n, int64_t k, const ChunkLimits& limits);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
