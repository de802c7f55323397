// SPDX-License-Identifier: Apache-2.0
//
// Bytes of resident layers as their backend has repacked them, to be stored and
// made resident again without the work of an upload. They depend on the build
// and the device: whoever stores them keeps a key of both beside them
// (server/keep/layout_key.h).

#ifndef QGEMM_KERNELS_MATRIX_LAYER_IMAGES_H_
#define QGEMM_KERNELS_MATRIX_LAYER_IMAGES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// A layer's memory, but for the bytes themselves.
struct LayerImage {
  int64_t size_bytes = 0;
  uint64_t checksum = 0;  // of those bytes (base/memory_checksum.h)
  std::string detail;     // the backend's own: scalars and the layout
};

// Fills a layer's memory with the bytes of an image. Used by one thread at a
// time; dropping it before Finish releases all it took.
class ImageSink {
 public:
  virtual ~ImageSink() = default;

  // Memory for the next bytes of the image, which the caller fills before the
  // next call; empty once all have come. Errors: the device's.
  virtual absl::StatusOr<absl::Span<uint8_t>> Next() = 0;

  // The layer, once Next has returned no more memory. The sink is spent then.
  // Errors: DATA_LOSS (the bytes have another checksum), the device's.
  virtual absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() = 0;
};

// Thread-safe. Lives as long as its backend.
class LayerImages {
 public:
  virtual ~LayerImages() = default;

  // The image of one of the backend's layers. Reads all its bytes, where they
  // are. Errors: INVALID_ARGUMENT (another backend's), the device's.
  virtual absl::StatusOr<LayerImage> Describe(
      const ResidentWeights& weights) = 0;

  // Copies that part of a layer's memory to `bytes`; waits for the device.
  // Errors: INVALID_ARGUMENT (another backend's, or past its end), the
  // device's.
  virtual absl::Status Copy(const ResidentWeights& weights,
                            int64_t offset_bytes,
                            absl::Span<uint8_t> bytes) = 0;

  // Takes memory for a layer of that image. Errors: INVALID_ARGUMENT and
  // UNIMPLEMENTED (nothing that Describe of this build returns for such a
  // device, or a shape beyond the limits), RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<ImageSink>> NewSink(
      const LayerImage& image) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_LAYER_IMAGES_H_
