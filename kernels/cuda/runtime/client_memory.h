// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU as a lane's client lends it (docs/lane.md). Without CUDA's
// headers: its users are built without the toolkit as well, and then have none.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_CLIENT_MEMORY_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_CLIENT_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace qgemm::cuda {

// Thread-safe.
class ClientMemory {
 public:
  // At least `size_bytes`, on the first GPU of the process. Errors:
  // FAILED_PRECONDITION (no CUDA in this build), those of the driver.
  static absl::StatusOr<std::unique_ptr<ClientMemory>> Allocate(
      int64_t size_bytes);

  virtual ~ClientMemory() = default;

  // Addresses of the device, not to be read or written here.
  virtual absl::Span<uint8_t> bytes() const = 0;
  virtual int descriptor() const = 0;
  virtual const std::array<uint8_t, 16>& device_uuid() const = 0;

  // Copies between the host and `bytes()`, and waits.
  virtual absl::Status CopyIn(absl::Span<const uint8_t> from, uint8_t* to) = 0;
  virtual absl::Status CopyOut(absl::Span<const uint8_t> from, uint8_t* to) = 0;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_CLIENT_MEMORY_H_
