// SPDX-License-Identifier: Apache-2.0
//
// Memory that the records of layers and names take, against what the budget
// counts for them.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/weights/weight_store.h"
#include "tests/server/weights/counted_weights.h"

namespace qgemm {
namespace {

constexpr int64_t kCount = 10000;

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

std::string LongestName(int64_t number) {
  return absl::StrFormat("%0128d", number);
}

class WeightStoreMemoryTest : public testing::Test {
 protected:
  void Commit(int64_t number, const std::string& name) {
    Weights weights;
    weights.id = absl::StrFormat("%064x", number);
    weights.resident = std::make_shared<CountedWeights>(1, 0, &live_);
    auto reservation = store_.Reserve(kAnybody, kLayerRecordBytes);
    ASSERT_TRUE(reservation.ok());
    ASSERT_TRUE(store_
                    .Commit(kAnybody, std::move(weights),
                            *std::move(reservation), {name, false, ""})
                    .ok());
  }

  std::atomic<int64_t> live_{0};
  WeightStore store_{StoreLimits{}};
};

TEST_F(WeightStoreMemoryTest, BudgetCoversTheRecordsOfLayers) {
  const int64_t heap_before = HeapBytes();
  for (int64_t i = 0; i < kCount; ++i) Commit(i, LongestName(i));
  const int64_t taken = HeapBytes() - heap_before;
  std::cout << taken / kCount << " bytes a layer with its name\n";
  // As much again is left for the backend's own records.
  EXPECT_LE(taken, kCount * (kLayerRecordBytes / 2 + kNameRecordBytes));
  EXPECT_LE(taken, store_.reserved_bytes());
}

TEST_F(WeightStoreMemoryTest, BudgetCoversNames) {
  Commit(0, "");
  const std::string id = absl::StrFormat("%064x", 0);
  const int64_t heap_before = HeapBytes();
  const int64_t reserved_before = store_.reserved_bytes();
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(
        store_.BindIfHeld(kAnybody, id, {LongestName(i), false, ""}).ok());
  }
  const int64_t taken = HeapBytes() - heap_before;
  std::cout << taken / kCount << " bytes a name\n";
  EXPECT_LE(taken, store_.reserved_bytes() - reserved_before);
}

}  // namespace
}  // namespace qgemm
