// SPDX-License-Identifier: Apache-2.0
//
// Exported memory, on a GPU: its checksum is the host's, and its bytes are
// there after its maker has given it up.

#include "kernels/cuda/runtime/exported_memory.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/memory_checksum.h"
#include "gtest/gtest.h"
#include "kernels/cuda/launch/checksum.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/imported_memory.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

class ExportedMemoryTest : public DeviceTest {
 protected:
  uint64_t DeviceChecksum(const uint8_t* data, int64_t size_bytes) {
    auto sum = DeviceBuffer::Allocate(sizeof(uint64_t));
    EXPECT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(LaunchChecksum(data, size_bytes,
                             reinterpret_cast<uint64_t*>(sum->data()), nullptr),
              cudaSuccess);
    uint64_t checksum = 0;
    EXPECT_EQ(cudaMemcpy(&checksum, sum->data(), sizeof(checksum),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return checksum;
  }

  std::string RandomBytes(int64_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  RandomGenerator random_{FreshSeed()};
};

TEST_F(ExportedMemoryTest, TheChecksumIsTheHosts) {
  constexpr int64_t kMostBytes = 9 << 20;
  auto memory = DeviceBuffer::Allocate(kMostBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::string bytes = RandomBytes(kMostBytes);
  ASSERT_EQ(cudaMemcpy(memory->data(), bytes.data(), bytes.size(),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  for (int64_t size : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 100, 8192, 541'696,
                       1 << 20, (8 << 20) + 11, 9 << 20}) {
    EXPECT_EQ(
        DeviceChecksum(memory->data(), size),
        MemoryChecksum(reinterpret_cast<const uint8_t*>(bytes.data()), size))
        << size;
  }
}

TEST_F(ExportedMemoryTest, OutlivesItsMakerByTheDescriptor) {
  constexpr int64_t kBytes = 5 << 20;
  auto memory = ExportedMemory::Allocate(0, kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const int64_t size_bytes = memory->size_bytes();
  EXPECT_GE(size_bytes, kBytes);
  EXPECT_EQ(size_bytes % (2 << 20), 0);
  const std::string bytes = RandomBytes(size_bytes);
  ASSERT_EQ(cudaMemcpy(memory->data(), bytes.data(), bytes.size(),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  const FileDescriptor held(fcntl(memory->descriptor(), F_DUPFD_CLOEXEC, 0));
  { const ExportedMemory given_up = *std::move(memory); }
  const auto uuid = UuidOf(0);
  ASSERT_TRUE(uuid.ok()) << uuid.status();
  const auto mapped = ImportedMemory::Map(0, held.get(), size_bytes, *uuid);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(DeviceChecksum(mapped->data(), size_bytes),
            MemoryChecksum(reinterpret_cast<const uint8_t*>(bytes.data()),
                           size_bytes));
  EXPECT_FALSE(ImportedMemory::Map(0, held.get(), size_bytes * 64, *uuid).ok());
}

TEST_F(ExportedMemoryTest, MoreThanTheGpuHasIsRefused) {
  EXPECT_EQ(ExportedMemory::Allocate(0, int64_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace qgemm::cuda
