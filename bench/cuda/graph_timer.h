// SPDX-License-Identifier: Apache-2.0
//
// Times launches as a CUDA graph runs them: back to back, without the host.

#ifndef QGEMM_BENCH_CUDA_GRAPH_TIMER_H_
#define QGEMM_BENCH_CUDA_GRAPH_TIMER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/runtime/stream.h"

namespace qgemm::cuda {

// Times of one launch.
struct GraphTimes {
  absl::Duration median;
  absl::Duration fastest;
  absl::Duration slowest;
  int64_t launches = 0;  // of a replay
};

// Bounds of the number of launches in a replay, which is otherwise as large as
// the timer's budget allows.
struct LaunchRange {
  int64_t least = 1;
  int64_t most = 1;
};

// Used by one thread at a time.
class GraphTimer {
 public:
  static constexpr int kWarmUps = 3;
  static constexpr int kReplays = 11;

  // Works on `stream`. Replays of one measurement take about `budget` in all,
  // unless the least of launches takes longer.
  static absl::StatusOr<GraphTimer> Create(cudaStream_t stream,
                                           absl::Duration budget);

  // `enqueue(i)` enqueues launch i of a replay on the stream. It is called
  // with 0 outside a capture at first, so that what it does only once is done,
  // then inside captures. Waits for the stream.
  absl::StatusOr<GraphTimes> Time(
      const LaunchRange& range,
      absl::FunctionRef<absl::Status(int64_t)> enqueue) const;

 private:
  class Graph;

  GraphTimer(cudaStream_t stream, absl::Duration budget, Event start, Event end)
      : stream_(stream),
        budget_(budget),
        start_(std::move(start)),
        end_(std::move(end)) {}

  absl::StatusOr<absl::Duration> Replay(const Graph& graph) const;

  cudaStream_t stream_;
  absl::Duration budget_;
  mutable Event start_;
  mutable Event end_;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_BENCH_CUDA_GRAPH_TIMER_H_
