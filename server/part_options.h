// SPDX-License-Identifier: Apache-2.0
//
// Settings of the server's parts, made of those of the whole, and the state
// directory and listeners that they describe (open_state.cc,
// open_listeners.cc).

#ifndef QGEMM_SERVER_PART_OPTIONS_H_
#define QGEMM_SERVER_PART_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/backend.h"
#include "server/health/health_monitor.h"
#include "server/keep/descriptor_holder.h"
#include "server/keep/kept_layers.h"
#include "server/lane/lane_service.h"
#include "server/metrics/server_metrics.h"
#include "server/net/connection_table.h"
#include "server/net/listener.h"
#include "server/rpc/rpc_options.h"
#include "server/scheduling/launch_planner.h"
#include "server/server_options.h"
#include "server/storage/file_system.h"
#include "server/storage/state_directory.h"
#include "server/weights/image_keeper.h"
#include "server/weights/layer_loader.h"
#include "server/weights/layer_scrubber.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Bounds of the memory for operands and answers: of all, and of one client.
int64_t StagingBytes(const ServerOptions& options);
int64_t ClientStagingBytes(const ServerOptions& options);
// Bound of the memory for weights.
int64_t WeightsBudget(const ServerOptions& options, const Backend& backend);

BackendOptions ToBackendOptions(const ServerOptions& options);
SchedulerOptions ToSchedulerOptions(const ServerOptions& options,
                                    const BackendLimits& limits);
// No more connections than the process may have open files; logs if they are
// fewer than was asked.
ConnectionLimits FittedLimits(const ServerOptions& options);
RpcOptions ToRpcOptions(const ServerOptions& options);
// Without its socket's file.
LaneOptions ToLaneOptions(const ServerOptions& options);
HealthMonitorOptions ToMonitorOptions(const ServerOptions& options);
LayerLoaderOptions ToLoaderOptions(const ServerOptions& options);

// Returns the numeric address of --metrics_listen; an error unless it is a
// loopback one.
absl::StatusOr<std::string> ResolveMetricsListen(const std::string& text);

// Errors: INVALID_ARGUMENT, which names the flag.
absl::StatusOr<SocketFileOptions> ToSocketFile(const ServerOptions& options);

// One for each address of --listen. Errors: those of the flags, and the
// system's.
absl::StatusOr<std::vector<Listener>> OpenListeners(
    const ServerOptions& options);

// All null without --state_dir, and the last two without --keep_memory.
struct OpenedState {
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<StateDirectory> directory;  // uses the files
  std::unique_ptr<DescriptorHolder> holder;
  std::unique_ptr<KeptLayers> kept;  // uses the holder, and the backend
};

// Makes the folder if it is not there, opens the directory, and logs what it
// found; then takes over what the holder has. Errors, which name the flag:
// StateDirectory::Open's, KeptLayers::Open's, FAILED_PRECONDITION (a backend
// without memory that outlives it).
absl::StatusOr<OpenedState> OpenState(const ServerOptions& options,
                                      std::unique_ptr<DescriptorHolder> holder,
                                      Backend* backend);

// Makes layers resident that are in kept memory, and tells how many.
void InheritLayers(const ServerOptions& options, const OpenedState& state,
                   WeightStore* store, ServerMetrics* metrics);

// Work on the state directory in the background: see LayerScrubber and
// ImageKeeper.
class StateUpkeep {
 public:
  // All must outlive it.
  StateUpkeep(const ServerOptions& options, Backend* backend,
              WeightStore* store, LayerLoader* loader);

  // Once, after the loader's Start.
  void Start();
  // May be repeated.
  void Stop();

 private:
  LayerScrubber scrubber_;
  std::unique_ptr<ImageKeeper> keeper_;  // null without images
};

// Says what --ready awaits; empty once there is nothing. The text stays the
// same while layers come.
std::string AwaitedLayers(ReadyWhen ready, const LoadingLayers& loading);

}  // namespace qgemm

#endif  // QGEMM_SERVER_PART_OPTIONS_H_
