// SPDX-License-Identifier: Apache-2.0
//
// The values that cross the Backend interface; backends themselves are tested
// by tests/conformance.

#include "kernels/matrix/backend.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

// A lease that counts how often it goes back.
StagingLease CountingLease(uint8_t* data, int64_t size_bytes, int* releases) {
  return StagingLease(data, size_bytes, [releases] { ++*releases; });
}

TEST(StagingLeaseTest, ReleasesOnceAtTheEnd) {
  uint8_t memory[64];
  int releases = 0;
  {
    const StagingLease lease = CountingLease(memory, 64, &releases);
    EXPECT_EQ(lease.data(), memory);
    EXPECT_EQ(lease.size_bytes(), 64);
    EXPECT_EQ(releases, 0);
  }
  EXPECT_EQ(releases, 1);
}

TEST(StagingLeaseTest, MovingHandsTheMemoryOn) {
  uint8_t memory[64];
  int releases = 0;
  {
    StagingLease first = CountingLease(memory, 64, &releases);
    const StagingLease second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(first.size_bytes(), 0);
    EXPECT_EQ(second.data(), memory);
  }
  EXPECT_EQ(releases, 1);
}

TEST(StagingLeaseTest, AssigningReleasesWhatWasHeld) {
  uint8_t memory[128];
  int first_releases = 0;
  int second_releases = 0;
  StagingLease lease = CountingLease(memory, 64, &first_releases);
  lease = CountingLease(memory + 64, 64, &second_releases);
  EXPECT_EQ(first_releases, 1);
  EXPECT_EQ(second_releases, 0);
  EXPECT_EQ(lease.data(), memory + 64);
}

TEST(StagingLeaseTest, AnEmptyLeaseReleasesNothing) {
  StagingLease empty;
  const StagingLease moved = std::move(empty);
  EXPECT_EQ(moved.data(), nullptr);
}

TEST(GemmBatchTest, RowsAreTheSumOfItsSegments) {
  GemmBatch batch;
  EXPECT_EQ(batch.rows(), 0);
  batch.segments.resize(2);
  batch.segments[0].rows = 3;
  batch.segments[1].rows = int64_t{1} << 33;
  EXPECT_EQ(batch.rows(), (int64_t{1} << 33) + 3);
}

}  // namespace
}  // namespace qgemm
