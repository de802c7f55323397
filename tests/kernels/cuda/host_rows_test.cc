// SPDX-License-Identifier: Apache-2.0
//
// Kernels gather from the host and scatter to it every byte of every
// run and no other, and the stamps tell of it.

#include "kernels/cuda/launch/host_rows.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/runtime/buffers.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/support/random_matrix.h"
#include "tests/support/seeds.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kUnit = kHostRunAlignment;
constexpr uint8_t kUntouched = 0xa5;

class HostRowsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    progress_ = Device(sizeof(BatchProgress), 0);
    stamps_ = Pinned(sizeof(BatchStamps), 0);
  }

  static DeviceBuffer Device(int64_t bytes, int value) {
    auto buffer = DeviceBuffer::Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(cudaMemset(buffer->data(), value, bytes), cudaSuccess);
    return *std::move(buffer);
  }

  static PinnedBuffer Pinned(int64_t bytes, int value) {
    auto buffer = PinnedBuffer::Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    std::fill_n(buffer->data(), bytes, static_cast<uint8_t>(value));
    return *std::move(buffer);
  }

  BatchProgress* progress() {
    return reinterpret_cast<BatchProgress*>(progress_.data());
  }
  BatchStamps* stamps() {
    return reinterpret_cast<BatchStamps*>(stamps_.data());
  }

  // Runs of random lengths with gaps between them on both sides.
  HostRuns RandomRuns(int count, int64_t most_units) {
    HostRuns runs;
    host_bytes_ = 0;
    device_bytes_ = 0;
    for (int i = 0; i < count; ++i) {
      HostRun& run = runs.runs[runs.count++];
      host_bytes_ += RandomInt(0, 3, &random_) * kUnit;
      device_bytes_ += RandomInt(0, 3, &random_) * kUnit;
      host_at_.push_back(host_bytes_);
      run.offset = device_bytes_;
      run.bytes = RandomInt(1, most_units, &random_) * kUnit;
      host_bytes_ += run.bytes;
      device_bytes_ += run.bytes;
    }
    return runs;
  }

  RandomGenerator random_{FreshSeed()};
  DeviceBuffer progress_;
  PinnedBuffer stamps_;
  std::vector<int64_t> host_at_;
  int64_t host_bytes_ = 0;
  int64_t device_bytes_ = 0;
};

TEST_F(HostRowsTest, BringsAndTakesEveryByteAndNoOther) {
  uint64_t batches = 0;
  for (const int count : {1, 2, 17, kMaxHostRuns}) {
    host_at_.clear();
    HostRuns runs = RandomRuns(count, count < 3 ? 40000 : 700);
    const PinnedBuffer from = Pinned(host_bytes_, 0);
    for (int64_t i = 0; i < host_bytes_; ++i) {
      from.data()[i] = static_cast<uint8_t>(random_());
    }
    const PinnedBuffer to = Pinned(host_bytes_, kUntouched);
    const DeviceBuffer device = Device(device_bytes_, 0);
    for (int i = 0; i < count; ++i) {
      runs.runs[i].host = from.data() + host_at_[i];
    }
    ASSERT_EQ(LaunchGatherRows(runs, device.data(), progress(), nullptr),
              cudaSuccess);
    for (int i = 0; i < count; ++i) {
      runs.runs[i].host = to.data() + host_at_[i];
    }
    const ScatterRowsArgs args = {device.data(), progress(), stamps()};
    ASSERT_EQ(LaunchScatterRows(runs, args, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<uint8_t> expected(host_bytes_, kUntouched);
    for (int i = 0; i < count; ++i) {
      std::copy_n(from.data() + host_at_[i], runs.runs[i].bytes,
                  expected.begin() + host_at_[i]);
    }
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to.data()))
        << count << " runs";
    EXPECT_EQ(stamps()->sequence, ++batches);
    EXPECT_GT(stamps()->gather_begin, 0u);
    EXPECT_LE(stamps()->gather_begin, stamps()->gather_end);
    EXPECT_LE(stamps()->gather_end, stamps()->scatter_begin);
    EXPECT_LE(stamps()->scatter_begin, stamps()->scatter_end);
  }
}

TEST_F(HostRowsTest, RefusesWhatItCannotMove) {
  const PinnedBuffer host = Pinned(1024, 0);
  const DeviceBuffer device = Device(1024, 0);
  const auto gather = [&](const HostRuns& runs) {
    return LaunchGatherRows(runs, device.data(), progress(), nullptr);
  };
  HostRuns runs;
  EXPECT_EQ(gather(runs), cudaErrorInvalidValue);
  runs.count = kMaxHostRuns + 1;
  EXPECT_EQ(gather(runs), cudaErrorInvalidValue);
  runs.count = 1;
  runs.runs[0] = {host.data(), 0, kUnit - 1};
  EXPECT_EQ(gather(runs), cudaErrorInvalidValue);
  runs.runs[0] = {host.data() + 8, 0, kUnit};
  EXPECT_EQ(gather(runs), cudaErrorInvalidValue);
  runs.runs[0] = {host.data(), 8, kUnit};
  EXPECT_EQ(gather(runs), cudaErrorInvalidValue);
  runs.runs[0] = {host.data(), 0, kUnit};
  EXPECT_EQ(gather(runs), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace qgemm::cuda
