// SPDX-License-Identifier: Apache-2.0
//
// Memory is aligned, zeroed and accounted for; what cannot be had is a
// status.

#include "kernels/cpu/aligned_memory.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace qgemm::cpu {
namespace {

class AlignedMemoryTest : public testing::TestWithParam<int64_t> {};

TEST_P(AlignedMemoryTest, IsAlignedZeroedAndLargeEnough) {
  // A first buffer is dirtied and dropped, so that its memory may come again.
  {
    auto dirty = AlignedMemory::Allocate(GetParam());
    ASSERT_TRUE(dirty.ok()) << dirty.status();
    std::fill_n(dirty->data(), GetParam(), 0xff);
  }
  const auto memory = AlignedMemory::Allocate(GetParam());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
  EXPECT_GE(memory->held_bytes(), GetParam());
  EXPECT_TRUE(std::all_of(memory->data(), memory->data() + GetParam(),
                          [](uint8_t byte) { return byte == 0; }));
}

TEST_P(AlignedMemoryTest, HoldsWhatIsForetold) {
  const auto memory = AlignedMemory::Allocate(GetParam());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->held_bytes(), AlignedMemory::HeldBytes(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, AlignedMemoryTest,
                         testing::Values(0, 1, 64, 65, 262079, 262080, 262081,
                                         262144, 262145, 3 << 20));

TEST(AlignedMemoryLimitTest, ImpossibleSizeIsResourceExhausted) {
  EXPECT_EQ(AlignedMemory::Allocate(int64_t{1} << 56).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace qgemm::cpu
