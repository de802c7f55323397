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
#include "server/part_options.h"

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

}  // namespace

absl::StatusOr<OpenedState> OpenState(const ServerOptions& options) {
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
  return state;
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
