// SPDX-License-Identifier: Apache-2.0
//
// Buffers are recycled within bounds.

#include "kernels/host/staging_pool.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/cpu/aligned_memory.h"

namespace qgemm {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;

using Pool = StagingPool<cpu::AlignedMemory>;
constexpr auto* kAllocate = cpu::AlignedMemory::Allocate;

TEST(StagingPoolTest, ReusesAReturnedBuffer) {
  Pool pool({kNoLimit, kNoLimit}, kAllocate);
  uint8_t* first;
  {
    auto lease = pool.Acquire(100000);
    ASSERT_TRUE(lease.ok()) << lease.status();
    first = lease->data();
  }
  auto again = pool.Acquire(99000);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data(), first);
}

TEST(StagingPoolTest, LeasesAreDistinctAndAligned) {
  Pool pool({kNoLimit, kNoLimit}, kAllocate);
  auto a = pool.Acquire(5000);
  auto b = pool.Acquire(5000);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 64, 0u);
}

TEST(StagingPoolTest, KeepsNoMoreThanItMayPool) {
  Pool pool({8192, kNoLimit}, kAllocate);
  {
    auto small = pool.Acquire(8192);
    auto large = pool.Acquire(1 << 20);
    ASSERT_TRUE(small.ok() && large.ok());
    EXPECT_GE(pool.held_bytes(), 8192 + (1 << 20));
  }
  EXPECT_EQ(pool.held_bytes(), 8192);
}

TEST(StagingPoolTest, RefusesBeyondItsLimit) {
  Pool pool({0, 1 << 20}, kAllocate);
  auto half = pool.Acquire(1 << 19);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(pool.Acquire(1 << 20).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(StagingPoolTest, TakesUpAgainAfterARefusal) {
  Pool pool({0, 1 << 20}, kAllocate);
  {
    auto all = pool.Acquire(1 << 20);
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_FALSE(pool.Acquire(1).ok());
  }
  EXPECT_TRUE(pool.Acquire(1 << 20).ok());
}

TEST(StagingPoolTest, CountsNothingForAnAllocationThatFails) {
  Pool pool({kNoLimit, kNoLimit}, [](int64_t) {
    return absl::StatusOr<cpu::AlignedMemory>(
        absl::ResourceExhaustedError("no memory"));
  });
  EXPECT_EQ(pool.Acquire(1).status().message(), "no memory");
  EXPECT_EQ(pool.held_bytes(), 0);
}

TEST(StagingPoolTest, RefusesSizesThatNoBufferHas) {
  Pool pool({kNoLimit, kNoLimit}, kAllocate);
  EXPECT_EQ(pool.Acquire(-1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Acquire(INT64_MAX).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace qgemm
