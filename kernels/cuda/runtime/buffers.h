// SPDX-License-Identifier: Apache-2.0
//
// Owned memory: of a device, and pinned memory of the host.

#ifndef QGEMM_KERNELS_CUDA_RUNTIME_BUFFERS_H_
#define QGEMM_KERNELS_CUDA_RUNTIME_BUFFERS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qgemm::cuda {

// Global memory of one device, aligned to 256 bytes. Contents are undefined at
// first. Move-only; null and empty when default-constructed or moved from.
// Taking and giving back memory may wait for the device, so neither belongs in
// the steady state.
class DeviceBuffer {
 public:
  // Errors: INVALID_ARGUMENT (negative), RESOURCE_EXHAUSTED.
  static absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes);

  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~DeviceBuffer();

  uint8_t* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  DeviceBuffer(uint8_t* data, int64_t size_bytes)
      : data_(data), size_bytes_(size_bytes) {}

  uint8_t* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

// Makes the buffer at least that large, without its contents.
absl::Status Reserve(int64_t size_bytes, DeviceBuffer& buffer);

// Pinned host memory that every device copies at full speed, aligned to
// 256 bytes. Contents are undefined at first. Move-only; null and empty when
// default-constructed or moved from. Taking and giving back memory may wait for
// the device, so neither belongs in the steady state.
class PinnedBuffer {
 public:
  // Errors: INVALID_ARGUMENT (negative), RESOURCE_EXHAUSTED.
  static absl::StatusOr<PinnedBuffer> Allocate(int64_t size_bytes);

  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~PinnedBuffer();

  uint8_t* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  PinnedBuffer(uint8_t* data, int64_t size_bytes)
      : data_(data), size_bytes_(size_bytes) {}

  uint8_t* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

// Host memory of somebody else's, which every device reads and writes by the
// host's addresses while it is registered. Move-only. Registering and giving it
// up pin and unpin its pages, some milliseconds for 64 MiB, and may wait for
// the device.
class RegisteredMemory {
 public:
  // `data` starts on a page and stays mapped for as long as it is registered.
  // Errors: UNIMPLEMENTED (the device has addresses of its own for it),
  // RESOURCE_EXHAUSTED (the memory that may be locked).
  static absl::StatusOr<RegisteredMemory> Register(uint8_t* data,
                                                   int64_t size_bytes);

  RegisteredMemory(RegisteredMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)) {}
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~RegisteredMemory();

 private:
  explicit RegisteredMemory(uint8_t* data) : data_(data) {}

  uint8_t* data_ = nullptr;
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_RUNTIME_BUFFERS_H_
