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
#include "server/keep/layout_key.h"
#include "server/part_options.h"
#include "server/weights/layer_loader.h"

namespace qgemm {
namespace {

absl::Status OfFlag(absl::string_view flag, absl::string_view value,
                    const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--", flag, " = \"", value,
                                                  "\": ", status.message()));
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

// OK if the backend has what the flags want of it.
absl::Status CheckBackend(const ServerOptions& options, bool has_holder,
                          Backend* backend) {
  const auto lacks = [&](absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", backend->describe().name, " has no ", what));
  };
  if (!options.keep_memory.empty() &&
      (backend->kept_memory() == nullptr || !has_holder)) {
    return OfFlag("keep_memory", options.keep_memory,
                  lacks("memory that outlives the server"));
  }
  if (options.state_image_bytes > 0 && backend->images() == nullptr) {
    return OfFlag("state_image_bytes", absl::StrCat(options.state_image_bytes),
                  lacks("images of layers"));
  }
  return absl::OkStatus();
}

// Zeros without images and kept memory, which alone have one.
absl::StatusOr<Sha256Digest> LayoutKey(const ServerOptions& options,
                                       Backend* backend) {
  if (options.state_image_bytes == 0 && options.keep_memory.empty()) {
    return Sha256Digest();
  }
  return LayoutKeyOf(backend);
}

// Makes the folder if there is none. That it survives a crash of the host is
// for its parent to keep, which is synced every time: an earlier start may have
// ended before.
absl::Status MakeStateFolder(const std::string& path) {
  constexpr mode_t kMode = 0700;
  if (mkdir(path.c_str(), kMode) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder: ", strerror(errno)));
  }
  // A parent that may be written but not read cannot be opened to be synced.
  NewSystemFiles(path)->SyncFolder("..").IgnoreError();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedState> OpenState(const ServerOptions& options,
                                      std::unique_ptr<DescriptorHolder> holder,
                                      Backend* backend) {
  OpenedState state;
  if (options.state_dir.empty()) return state;
  const absl::Status made = MakeStateFolder(options.state_dir);
  if (!made.ok()) return OfFlag("state_dir", options.state_dir, made);
  state.files = NewSystemFiles(options.state_dir);
  RETURN_IF_ERROR(CheckBackend(options, holder != nullptr, backend));
  ASSIGN_OR_RETURN(const Sha256Digest layout_key, LayoutKey(options, backend));
  auto directory = StateDirectory::Open(
      state.files.get(),
      {options.state_bytes, {options.state_image_bytes, layout_key}});
  if (!directory.ok()) {
    return OfFlag("state_dir", options.state_dir, directory.status());
  }
  state.directory = *std::move(directory);
  Log(options, *state.directory);
  if (options.keep_memory.empty()) return state;
  state.holder = std::move(holder);
  auto kept = KeptLayers::Open(backend->kept_memory(), state.holder.get(),
                               layout_key, options.max_layers);
  if (!kept.ok()) {
    return OfFlag("keep_memory", options.keep_memory, kept.status());
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

// A thread reads and checks some GB a second of an image, and repacks some
// hundreds of MB of an upload: few fill the disk, and the rest of the cores
// computes.
LayerLoaderOptions ToLoaderOptions(const ServerOptions& options) {
  LayerLoaderOptions loader;
  loader.threads =
      std::clamp<int>(std::thread::hardware_concurrency() / 2, 1, 8);
  loader.first_names = options.pin_names;
  return loader;
}

StateUpkeep::StateUpkeep(const ServerOptions& options, Backend* backend,
                         WeightStore* store, LayerLoader* loader)
    : scrubber_(store, loader) {
  if (options.state_image_bytes > 0) {
    keeper_ = std::make_unique<ImageKeeper>(backend, store, loader);
  }
}

void StateUpkeep::Start() {
  scrubber_.Start();
  if (keeper_ != nullptr) keeper_->Start();
}

void StateUpkeep::Stop() {
  scrubber_.Stop();
  if (keeper_ != nullptr) keeper_->Stop();
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
