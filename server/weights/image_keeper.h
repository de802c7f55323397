// SPDX-License-Identifier: Apache-2.0
//
// Puts images of resident layers on the disk, in the background: a layer that
// has one is back without being decoded and repacked.

#ifndef QGEMM_SERVER_WEIGHTS_IMAGE_KEEPER_H_
#define QGEMM_SERVER_WEIGHTS_IMAGE_KEEPER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"
#include "server/weights/background_thread.h"
#include "server/weights/layer_loader.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct ImageKeeperOptions {
  absl::Duration poll = absl::Milliseconds(200);  // for layers that have come
  // Uploads have the disk for themselves until none has written for so long:
  // more than a client takes between two layers.
  absl::Duration quiet = absl::Seconds(2);
};

// Begins when the loader has brought the layers of the start. One thread.
class ImageKeeper {
 public:
  // The store has a state directory, and the backend has images. All must
  // outlive the keeper.
  ImageKeeper(Backend* backend, WeightStore* store, const LayerLoader* loader,
              const ImageKeeperOptions& options = {});
  ImageKeeper(const ImageKeeper&) = delete;
  ImageKeeper& operator=(const ImageKeeper&) = delete;
  ~ImageKeeper() { Stop(); }

  // Once, after the loader's Start.
  void Start() {
    thread_.Start([this] { Run(); });
  }
  // May be repeated.
  void Stop() { thread_.Stop(); }

 private:
  void Run();
  // Every layer that has no image and for which there is room.
  void KeepAll();
  absl::Status Keep(const std::string& id);
  // Returns once no upload writes; CANCELLED once stopped.
  absl::Status AwaitQuiet();

  Backend* const backend_;
  WeightStore* const store_;
  const LayerLoader* const loader_;
  const ImageKeeperOptions options_;
  int64_t uploaded_bytes_ = 0;  // at the last look; the thread's
  BackgroundThread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_IMAGE_KEEPER_H_
