// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/runtime/client_memory.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/runtime/cuda_status.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/exported_memory.h"

namespace qgemm::cuda {
namespace {

constexpr int kDevice = 0;

class ExportedClientMemory final : public ClientMemory {
 public:
  ExportedClientMemory(ExportedMemory memory, const DeviceUuid& uuid)
      : memory_(std::move(memory)), uuid_(uuid) {}

  absl::Span<uint8_t> bytes() const override {
    return absl::MakeSpan(memory_.data(), memory_.size_bytes());
  }
  int descriptor() const override { return memory_.descriptor(); }
  const std::array<uint8_t, 16>& device_uuid() const override { return uuid_; }

  absl::Status CopyIn(absl::Span<const uint8_t> from, uint8_t* to) override {
    return Copy(from, to, cudaMemcpyHostToDevice);
  }
  absl::Status CopyOut(absl::Span<const uint8_t> from, uint8_t* to) override {
    return Copy(from, to, cudaMemcpyDeviceToHost);
  }

 private:
  absl::Status Copy(absl::Span<const uint8_t> from, uint8_t* to,
                    cudaMemcpyKind kind) {
    RETURN_IF_ERROR(SetCurrentDevice(kDevice));
    RETURN_IF_ERROR(ToStatus(cudaMemcpy(to, from.data(), from.size(), kind),
                             "copy a client's operand"));
    // A copy from pageable memory may end behind the call.
    return ToStatus(cudaStreamSynchronize(nullptr), "wait for that copy");
  }

  const ExportedMemory memory_;
  const DeviceUuid uuid_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ClientMemory>> ClientMemory::Allocate(
    int64_t size_bytes) {
  RETURN_IF_ERROR(OpenDevice(kDevice).status());
  // Makes the device's context, which the driver's own functions need.
  RETURN_IF_ERROR(ToStatus(cudaFree(nullptr), "make a context of the GPU"));
  ASSIGN_OR_RETURN(const DeviceUuid uuid, UuidOf(kDevice));
  ASSIGN_OR_RETURN(ExportedMemory memory,
                   ExportedMemory::Allocate(kDevice, size_bytes));
  return std::make_unique<ExportedClientMemory>(std::move(memory), uuid);
}

}  // namespace qgemm::cuda
