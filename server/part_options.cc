// SPDX-License-Identifier: Apache-2.0

#include "server/part_options.h"

#include <algorithm>
#include <thread>

#include "absl/strings/strip.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/version.h"
#include "server/net/descriptor_limit.h"
#include "server/net/grpc_settings.h"

namespace qgemm {
namespace {

// The transport's share of the cores; on 16, half gave most requests a second
// (bench/NOTES.md). Each queue has a thread, which reads requests, copies their
// operands and sends answers. At least two: with one, calls that came while the
// server shut down were sometimes cancelled instead of refused.
int CompletionQueues() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 2, 2, 16);
}
// Threads for long answers, those of streams and those of lanes.
int AnswerThreads() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 8, 1, 4);
}

}  // namespace

// A quarter of the memory leaves room for weights on the CPU.
int64_t StagingBytes(const ServerOptions& options) {
  constexpr int64_t kMostStagingBytes = int64_t{4} << 30;
  return options.max_staging_bytes > 0
             ? options.max_staging_bytes
             : std::min(kMostStagingBytes, MemoryLimitBytes() / 4);
}

// Half of it leaves others what they need beside a client that does not read.
int64_t ClientStagingBytes(const ServerOptions& options) {
  return options.max_client_staging_bytes > 0 ? options.max_client_staging_bytes
                                              : StagingBytes(options) / 2;
}

BackendOptions ToBackendOptions(const ServerOptions& options) {
  const int64_t staging_bytes = StagingBytes(options);
  BackendOptions backend = options.backend;
  backend.cpu.max_staging_bytes = staging_bytes;
  backend.cuda.max_staging_bytes = staging_bytes;
  backend.cpu.keep_memory = !options.keep_memory.empty();
  backend.cuda.keep_memory = !options.keep_memory.empty();
  return backend;
}

// A launch may hold as many requests as rows: each has at least one.
SchedulerOptions ToSchedulerOptions(const ServerOptions& options,
                                    const BackendLimits& limits) {
  SchedulerOptions scheduler = options.scheduler;
  scheduler.policy.tile_rows = limits.tile_rows;
  BatchingOptions& batching = scheduler.batching;
  batching.max_rows = limits.merge_rows;
  batching.max_requests = options.batching ? batching.max_rows : 1;
  batching.chunks = {limits.chunk_rows, limits.chunk_multiply_adds,
                     limits.least_chunk_rows};
  batching.max_multiply_adds = limits.launch_multiply_adds;
  return scheduler;
}

ConnectionLimits FittedLimits(const ServerOptions& options) {
  const int asked = options.connections.max_connections;
  ConnectionLimits limits = FitTo(DescriptorLimit(), options.connections);
  limits.max_transit_bytes = MaxTransitBytes(options.grpc);
  if (limits.max_connections < asked) {
    LOG(WARNING) << "--max_connections = " << asked << " is too many for "
                 << DescriptorLimit() << " open files";
  }
  return limits;
}

int64_t WeightsBudget(const ServerOptions& options, const Backend& backend) {
  return options.weights_budget_bytes > 0
             ? options.weights_budget_bytes
             : backend.memory().default_weights_bytes;
}

RpcOptions ToRpcOptions(const ServerOptions& options) {
  RpcOptions rpc;
  rpc.max_message_bytes = options.max_message_bytes;
  rpc.weights_limits = options.weights_limits;
  rpc.max_uploads = options.max_uploads;
  rpc.upload_linger = options.upload_linger;
  rpc.stream = options.stream;
  rpc.max_queued_bytes = options.scheduler.max_queued_bytes;
  rpc.max_client_staging_bytes = ClientStagingBytes(options);
  rpc.max_streams = options.max_streams;
  rpc.progress = {options.idle_timeout, options.min_upload_bytes_per_second};
  rpc.has_grpc_services = options.grpc.reflection || options.grpc.channelz;
  rpc.completion_queues = CompletionQueues();
  rpc.answer_threads = AnswerThreads();
  rpc.slow_request = options.slow_request;
  rpc.enable_echo = options.enable_echo;
  rpc.enable_freeze = options.enable_freeze;
  rpc.enable_faults = options.enable_faults;
  if (!options.lane_listen.empty()) {
    rpc.lane_path =
        std::string(absl::StripPrefix(options.lane_listen, "unix:"));
  }
  rpc.version = kVersion;
  return rpc;
}

LaneOptions ToLaneOptions(const ServerOptions& options) {
  LaneOptions lane;
  lane.listen = options.lane_listen;
  lane.spin = options.lane_spin;
  lane.limits = options.lanes;
  lane.wake_threads = AnswerThreads();
  if (options.slow_request > absl::ZeroDuration()) {
    lane.slow_request = options.slow_request;
  }
  return lane;
}

HealthMonitorOptions ToMonitorOptions(const ServerOptions& options) {
  HealthMonitorOptions monitor;
  monitor.launch_timeout = options.launch_timeout == absl::ZeroDuration()
                               ? absl::InfiniteDuration()
                               : options.launch_timeout;
  return monitor;
}

}  // namespace qgemm
