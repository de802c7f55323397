// SPDX-License-Identifier: Apache-2.0
//
// Decides which queue launches next, where a batch is closed and how a large
// request is cut into chunks. Pure functions; queues, clock and threads are in
// launch_planner.h and batch_scheduler.h.

#ifndef QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
#define QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

// Requests of little work share a launch; a larger request runs in chunks, one
// launch each.
enum class LaunchKind : uint8_t { kMerged, kChunk };

// Preference among queues that are neither urgent nor aged.
enum class BatchOrder : uint8_t {
  kOldest,  // the longest wait
  // The clients that are the fewest layers behind others, so that they catch
  // up and share launches from there on.
  kChase,
  // The most rows that share a launch: clients that walk the same layers at
  // their own pace so come together.
  kFullest,
};

struct PolicyOptions {
  BatchOrder order = BatchOrder::kOldest;
  // A request that has waited longer goes before younger ones of any priority,
  // at every other launch at least.
  absl::Duration age_cap = absl::Milliseconds(1);
  // A request whose deadline is nearer goes before all others.
  absl::Duration deadline_slack = absl::Milliseconds(2);
  // Rows that cost as much as one; a queue that has them goes before others.
  int64_t tile_rows = 16;
};

// Inputs of the policy that come from one queue, which is not empty.
struct QueueSnapshot {
  LaunchKind kind = LaunchKind::kMerged;
  Priority priority = Priority::kNormal;  // the highest of its requests
  int64_t rows = 0;
  absl::Time oldest;  // start of its longest wait
  absl::Time earliest_deadline = absl::InfiniteFuture();
  // Number of layers by which its clients are behind those of another waiting
  // queue; nullopt if unknown.
  std::optional<int64_t> layers_behind;
};

enum class LaunchReason : uint8_t { kUrgent, kAged, kPreferred };

// Inputs of one decision besides the queues.
struct DecisionContext {
  absl::Time now;
  LaunchReason last = LaunchReason::kPreferred;  // of the launch before
  bool chunk_may_launch = true;
};

struct QueueChoice {
  int64_t queue = 0;  // index into the snapshots
  LaunchReason reason = LaunchReason::kPreferred;
};

// Returns the queue that launches next; nullopt if none may. In this order: the
// earliest deadline within the slack; the oldest beyond the age cap; of the
// highest priority, by the options' order, a full tile, then the oldest. Since
// in an overload everything is urgent or aged, neither of the first two rules
// decides twice in a row against a later one.
std::optional<QueueChoice> NextQueue(absl::Span<const QueueSnapshot> queues,
                                     const DecisionContext& context,
                                     const PolicyOptions& options);

// Returns how many of the requests that fit in a batch run in it while more
// wait: the number with the most rows per cost, where a launch costs as much as
// a tile. 0 for no requests.
int64_t RequestsToLaunch(absl::Span<const int64_t> rows_of_requests,
                         int64_t tile_rows);

// Returns how many of the requests that fit in a batch run in it where clients
// share two launches that take turns, and each waits for the other: all of
// them, but those in half of max_rows if all that `clients` ask for, with as
// many rows each, fits in two such launches. A launch of more rows takes half
// as long again.
int64_t RequestsOfTurn(absl::Span<const int64_t> rows_of_requests,
                       int64_t clients, int64_t max_rows);

// Bounds of one chunk of a large request.
struct ChunkLimits {
  int64_t max_rows = 512;
  int64_t max_multiply_adds = 0;  // 0 = no bound
  int64_t least_rows = 1;         // whatever these say
};

struct BatchingOptions {
  // 1 runs every request in launches of its own.
  int64_t max_requests = 1;
  // Bound of a batch; requests of more rows run in chunks.
  int64_t max_rows = 64;
  ChunkLimits chunks;
  // Bound of a launch of either kind, rows * n * k; 0 = none. It cuts batches
  // and requests of few rows only for layers that are huge for the device.
  int64_t max_multiply_adds = 0;
};

// Returns kMerged if the request runs whole, else kChunk, whatever else waits.
LaunchKind KindOf(const AdmittedRequest& request,
                  const BatchingOptions& options);

// Returns the rows that a merged launch of the request's layer may have; at
// least 1.
int64_t MergedRows(const AdmittedRequest& request,
                   const BatchingOptions& options);

// Returns the rows of each launch of the request but the last: all of them if
// it runs whole, else those of ChunkRows, or fewer if max_multiply_adds asks
// for it. Each launch starts on a 64-byte boundary of both operands.
int64_t RowsPerLaunch(const AdmittedRequest& request,
                      const BatchingOptions& options);

// Multiply-adds that count as one row where clients are compared by what they
// had of the device. The rows of an 8B model's products have 5.9e7 at most.
inline constexpr int64_t kRowMultiplyAdds = int64_t{1} << 26;

// Returns the number of rows that one row of the request counts as: 1, and more
// for programs and layers whose rows are heavier than that.
int64_t RowCost(const AdmittedRequest& request);

// True if a merged launch of the request waits until none is in flight, or
// until all who are not in that share it: under BatchOrder::kChase, where those
// of the launch in flight mostly ask next for what others wait for, and may
// then join it. The device has nothing to do meanwhile for some 30 us, so that
// only launches of heavy rows wait, which take several times as long.
bool LaunchesAlone(const AdmittedRequest& request, BatchOrder order);

// Returns the rows that a launch of the request counts as, however few it has:
// a tile, and a tile of its own rows as far as a launch may have them.
int64_t LeastLaunchCost(const AdmittedRequest& request,
                        const BatchingOptions& options, int64_t tile_rows);

// Chunks start at multiples of this, so that they are aligned to 64 bytes like
// the operands themselves, whatever k and n are.
inline constexpr int64_t kChunkRowAlignment = 32;

// Returns the rows of each chunk but the last of m rows with so much work each:
// chunks of about equal size within the limits, or of the alignment if the
// limits are below it; all m if they are fewer than least_rows.
int64_t ChunkRows(int64_t m, int64_t row_multiply_adds,
                  const ChunkLimits& limits);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
