// SPDX-License-Identifier: Apache-2.0
//
// The ledger counts and the reservation gives back.

#include "kernels/reference/memory_ledger.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(MemoryLedgerTest, GrantsUpToItsLimit) {
  MemoryLedger ledger(10);
  EXPECT_TRUE(ledger.TryTake(6));
  EXPECT_FALSE(ledger.TryTake(5));
  EXPECT_EQ(ledger.used_bytes(), 6);
  EXPECT_TRUE(ledger.TryTake(4));
}

TEST(MemoryLedgerTest, RefusesWhatWouldOverflow) {
  MemoryLedger ledger(10);
  ASSERT_TRUE(ledger.TryTake(6));
  EXPECT_FALSE(ledger.TryTake(std::numeric_limits<int64_t>::max()));
}

TEST(MemoryReservationTest, GivesBackOnce) {
  MemoryLedger ledger(10);
  ASSERT_TRUE(ledger.TryTake(7));
  {
    MemoryReservation first(&ledger, 7);
    const MemoryReservation second = std::move(first);
    EXPECT_EQ(second.bytes(), 7);
    EXPECT_EQ(ledger.used_bytes(), 7);
  }
  EXPECT_EQ(ledger.used_bytes(), 0);
}

}  // namespace
}  // namespace qgemm
