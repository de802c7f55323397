// SPDX-License-Identifier: Apache-2.0
//
// The owners of CUDA's resources, on a GPU; what a host without one is told.

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/buffers.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/kernels/cuda/device_test.h"

namespace qgemm::cuda {
namespace {

using ::testing::HasSubstr;

using RuntimeTest = DeviceTest;

TEST(DeviceInfoTest, RefusesGpusBeforeAmpereByName) {
  const absl::Status status = CheckComputeCapability(75);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("7.5"));
  EXPECT_TRUE(CheckComputeCapability(80).ok());
  EXPECT_TRUE(CheckComputeCapability(120).ok());
}

TEST(DeviceInfoTest, SaysThatThereIsNoDevice) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    GTEST_SKIP() << "this host has " << count << " CUDA devices";
  }
  const absl::Status status = OpenDevice(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("CUDA device"));
}

TEST(DeviceBufferTest, RefusesANegativeSize) {
  EXPECT_EQ(DeviceBuffer::Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PinnedBufferTest, RefusesANegativeSize) {
  EXPECT_EQ(PinnedBuffer::Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DeviceBufferTest, OfNothingNeedsNoDevice) {
  const absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Allocate(0);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->size_bytes(), 0);
}

TEST_F(RuntimeTest, DescribesTheDevice) {
  EXPECT_GE(device_.traits.compute_capability, kMinComputeCapability);
  EXPECT_GT(device_.traits.sm_count, 0);
  EXPECT_GT(device_.traits.l2_bytes, 0);
  EXPECT_GE(device_.traits.shared_bytes_per_block, 48 << 10);
  EXPECT_FALSE(device_.name.empty());
  EXPECT_GT(device_.total_bytes, 0);
  EXPECT_EQ(device_.encode_tensor_map != nullptr,
            device_.traits.compute_capability >= 90);
}

TEST_F(RuntimeTest, RefusesADeviceBeyondTheLast) {
  EXPECT_EQ(OpenDevice(1000).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenDevice(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RuntimeTest, CopiesThereAndBackInOrder) {
  constexpr int64_t kBytes = 1 << 20;
  absl::StatusOr<Stream> stream = Stream::Create();
  ASSERT_TRUE(stream.ok()) << stream.status();
  absl::StatusOr<PinnedBuffer> source = PinnedBuffer::Allocate(kBytes);
  absl::StatusOr<PinnedBuffer> result = PinnedBuffer::Allocate(kBytes);
  absl::StatusOr<DeviceBuffer> device = DeviceBuffer::Allocate(kBytes);
  ASSERT_TRUE(source.ok() && result.ok() && device.ok());
  for (int64_t i = 0; i < kBytes; ++i) source->data()[i] = i % 251;
  std::memset(result->data(), 0, kBytes);
  ASSERT_EQ(cudaMemcpyAsync(device->data(), source->data(), kBytes,
                            cudaMemcpyHostToDevice, stream->get()),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(result->data(), device->data(), kBytes,
                            cudaMemcpyDeviceToHost, stream->get()),
            cudaSuccess);
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(std::memcmp(source->data(), result->data(), kBytes), 0);
}

TEST_F(RuntimeTest, EventsMarkAndTimeAStream) {
  absl::StatusOr<Stream> first = Stream::Create();
  absl::StatusOr<Stream> second = Stream::Create();
  absl::StatusOr<Event> start = Event::Create();
  absl::StatusOr<Event> end = Event::Create();
  absl::StatusOr<Event> order = Event::Create(EventKind::kOrdering);
  absl::StatusOr<DeviceBuffer> memory = DeviceBuffer::Allocate(64 << 20);
  ASSERT_TRUE(first.ok() && second.ok() && start.ok() && end.ok() &&
              order.ok() && memory.ok());
  ASSERT_TRUE(start->Record(first->get()).ok());
  ASSERT_EQ(
      cudaMemsetAsync(memory->data(), 1, memory->size_bytes(), first->get()),
      cudaSuccess);
  ASSERT_TRUE(order->Record(first->get()).ok());
  ASSERT_TRUE(order->EnqueueWait(second->get()).ok());
  ASSERT_TRUE(end->Record(second->get()).ok());
  ASSERT_TRUE(end->Synchronize().ok());
  const absl::StatusOr<absl::Duration> elapsed = Elapsed(*start, *end);
  ASSERT_TRUE(elapsed.ok()) << elapsed.status();
  EXPECT_GT(*elapsed, absl::ZeroDuration());
}

TEST_F(RuntimeTest, MemoryBeyondTheDeviceIsResourceExhausted) {
  EXPECT_EQ(DeviceBuffer::Allocate(int64_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(RuntimeTest, MovingABufferMovesItsMemory) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Allocate(256);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  uint8_t* const data = buffer->data();
  DeviceBuffer moved = *std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.size_bytes(), 256);
}

}  // namespace
}  // namespace qgemm::cuda
