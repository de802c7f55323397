// SPDX-License-Identifier: Apache-2.0
//
// The state directory as the server's options describe it.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/keep/kept_layers.h"
#include "server/part_options.h"
#include "server/weights/layer_loader.h"

namespace qgemm {
namespace {

absl::Status OfFlag(const ServerOptions& options, absl::StatusCode code,
                    absl::string_view reason) {
  return absl::Status(code, absl::StrCat("--state_dir = \"", options.state_dir,
                                         "\": ", reason));
}

void Log(const ServerOptions& options, const StateDirectory& directory) {
  const StateRecovery& recovery = directory.recovery();
  EVENT(INFO, "state_opened")
      .With("state_dir", options.state_dir)
      .With("layers", directory.file_count())
      .With("names", directory.table().names().size())
      .With("bytes", directory.used_bytes())
      .With("removed_files", recovery.removed_files);
  if (recovery.log_was_damaged || recovery.damaged_files > 0 ||
      !recovery.lost.empty()) {
    EVENT(ERROR, "state_damaged")
        .With("names_log", recovery.log_was_damaged)
        .With("files", recovery.damaged_files)
        .With("lost_names", recovery.lost.size());
  }
}

absl::StatusOr<std::unique_ptr<KeptLayers>> OpenKept(
    const ServerOptions& options, DescriptorHolder* holder, Backend* backend) {
  if (backend->kept_memory() == nullptr || holder == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", backend->describe().name,
                     " has no memory that outlives the server"));
  }
  ASSIGN_OR_RETURN(const Sha256Digest layout_key, LayoutKeyOf(backend));
  return KeptLayers::Open(backend->kept_memory(), holder, layout_key,
                          options.max_layers);
}

}  // namespace

absl::StatusOr<OpenedState> OpenState(const ServerOptions& options,
                                      std::unique_ptr<DescriptorHolder> holder,
                                      Backend* backend) {
  OpenedState state;
  if (options.state_dir.empty()) return state;
  constexpr mode_t kMode = 0700;
  if (mkdir(options.state_dir.c_str(), kMode) != 0 && errno != EEXIST) {
    return OfFlag(options, absl::StatusCode::kFailedPrecondition,
                  absl::StrCat("cannot make the folder: ", strerror(errno)));
  }
  state.files = NewSystemFiles(options.state_dir);
  auto directory =
      StateDirectory::Open(state.files.get(), {options.state_bytes});
  if (!directory.ok()) {
    return OfFlag(options, directory.status().code(),
                  directory.status().message());
  }
  state.directory = *std::move(directory);
  Log(options, *state.directory);
  if (options.keep_memory.empty()) return state;
  state.holder = std::move(holder);
  auto kept = OpenKept(options, state.holder.get(), backend);
  if (!kept.ok()) {
    return absl::Status(kept.status().code(),
                        absl::StrCat("--keep_memory = \"", options.keep_memory,
                                     "\": ", kept.status().message()));
  }
  state.kept = *std::move(kept);
  return state;
}

void InheritLayers(const ServerOptions& options, const OpenedState& state,
                   WeightStore* store, ServerMetrics* metrics) {
  if (state.kept == nullptr) return;
  const InheritedLayers inherited =
      InheritLayers(ToLoaderOptions(options).threads, state.kept.get(), store);
  metrics->LayersInherited(inherited.layers, inherited.bytes,
                           inherited.dropped_layers, inherited.took);
  EVENT(INFO, "layers_inherited")
      .With("layers", inherited.layers)
      .With("bytes", inherited.bytes)
      .With("dropped", inherited.dropped_layers)
      .With("took", inherited.took);
}

// A thread reads, checks and repacks some hundreds of MB a second: few fill the
// disk, and the rest of the cores computes.
LayerLoaderOptions ToLoaderOptions(const ServerOptions& options) {
  LayerLoaderOptions loader;
  loader.threads =
      std::clamp<int>(std::thread::hardware_concurrency() / 2, 1, 8);
  loader.first_names = options.pin_names;
  return loader;
}

std::string AwaitedLayers(ReadyWhen ready, const LoadingLayers& loading) {
  const int64_t layers = ready == ReadyWhen::kAll      ? loading.all
                         : ready == ReadyWhen::kPinned ? loading.first
                                                       : 0;
  if (layers == 0) return "";
  return absl::StrCat("layers are still read from the disk (--ready=",
                      ready == ReadyWhen::kAll ? "all" : "pinned", ")");
}

}  // namespace qgemm
