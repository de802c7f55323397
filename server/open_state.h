// SPDX-License-Identifier: Apache-2.0
//
// The state directory as the server's options describe it, and who loads from
// it.

#ifndef QGEMM_SERVER_OPEN_STATE_H_
#define QGEMM_SERVER_OPEN_STATE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/server_options.h"
#include "server/storage/file_system.h"
#include "server/storage/state_directory.h"
#include "server/weights/layer_loader.h"

namespace qgemm {

// Both null without --state_dir.
struct OpenedState {
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<StateDirectory> directory;  // uses the files
};

// Makes the folder if it is not there, opens the directory, and logs what it
// found. Errors, which name the flag: StateDirectory::Open's.
absl::StatusOr<OpenedState> OpenState(const ServerOptions& options);

LayerLoaderOptions ToLoaderOptions(const ServerOptions& options);

// Says what --ready awaits; empty once there is nothing. The text stays the
// same while layers come.
std::string AwaitedLayers(ReadyWhen ready, const LoadingLayers& loading);

}  // namespace qgemm

#endif  // QGEMM_SERVER_OPEN_STATE_H_
