// SPDX-License-Identifier: Apache-2.0
//
// A short graph tells how long a launch takes, and so how many the graph that
// counts may have.

#include "bench/cuda/graph_timer.h"

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// A GPU that has worked at its power limit runs at lower clocks for a while.
constexpr absl::Duration kRest = absl::Milliseconds(60);

}  // namespace

// An owned graph, ready to be replayed. Move-only.
class GraphTimer::Graph {
 public:
  // Captures launches 0 to `launches` - 1.
  static absl::StatusOr<Graph> Capture(
      cudaStream_t stream, int64_t launches,
      absl::FunctionRef<absl::Status(int64_t)> enqueue);

  Graph(Graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        launches_(other.launches_) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(launches_, other.launches_);
    return *this;
  }
  ~Graph() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  int64_t launches() const { return launches_; }

  absl::Status Launch(cudaStream_t stream) const {
    return ToStatus(cudaGraphLaunch(graph_, stream), "launch a graph");
  }

 private:
  Graph(cudaGraphExec_t graph, int64_t launches)
      : graph_(graph), launches_(launches) {}

  cudaGraphExec_t graph_;
  int64_t launches_;
};

absl::StatusOr<GraphTimer::Graph> GraphTimer::Graph::Capture(
    cudaStream_t stream, int64_t launches,
    absl::FunctionRef<absl::Status(int64_t)> enqueue) {
  RETURN_IF_ERROR(
      ToStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "begin to capture a graph"));
  absl::Status enqueued;
  for (int64_t i = 0; i < launches && enqueued.ok(); ++i) {
    enqueued = enqueue(i);
  }
  // Ended after an error as well, or the stream stays in capture.
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(ToStatus(ended, "capture a graph"));
  cudaGraphExec_t graph = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  RETURN_IF_ERROR(ToStatus(made, "instantiate a graph"));
  return Graph(graph, launches);
}

absl::StatusOr<GraphTimer> GraphTimer::Create(cudaStream_t stream,
                                              absl::Duration budget) {
  ASSIGN_OR_RETURN(Event start, Event::Create());
  ASSIGN_OR_RETURN(Event end, Event::Create());
  return GraphTimer(stream, budget, std::move(start), std::move(end));
}

absl::StatusOr<absl::Duration> GraphTimer::Replay(const Graph& graph) const {
  RETURN_IF_ERROR(start_.Record(stream_));
  RETURN_IF_ERROR(graph.Launch(stream_));
  RETURN_IF_ERROR(end_.Record(stream_));
  RETURN_IF_ERROR(end_.Synchronize());
  ASSIGN_OR_RETURN(const absl::Duration time, Elapsed(start_, end_));
  return time / graph.launches();
}

absl::StatusOr<GraphTimes> GraphTimer::Time(
    const LaunchRange& range,
    absl::FunctionRef<absl::Status(int64_t)> enqueue) const {
  absl::SleepFor(kRest);
  RETURN_IF_ERROR(enqueue(0));
  ASSIGN_OR_RETURN(Graph graph, Graph::Capture(stream_, range.least, enqueue));
  RETURN_IF_ERROR(Replay(graph).status());
  ASSIGN_OR_RETURN(const absl::Duration once, Replay(graph));
  const int64_t fitting =
      budget_ / (kWarmUps + kReplays) / std::max(once, absl::Nanoseconds(100));
  const int64_t launches = std::clamp(fitting, range.least, range.most);
  if (launches > range.least) {
    ASSIGN_OR_RETURN(graph, Graph::Capture(stream_, launches, enqueue));
  }
  std::vector<absl::Duration> times;
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    ASSIGN_OR_RETURN(const absl::Duration time, Replay(graph));
    if (i >= kWarmUps) times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  return GraphTimes{times[times.size() / 2], times.front(), times.back(),
                    launches};
}

}  // namespace qgemm::cuda
