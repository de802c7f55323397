// SPDX-License-Identifier: Apache-2.0
//
// The table of qgemm_holder, without sockets.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "server/keep/holder.h"

namespace qgemm {
namespace {

constexpr absl::Duration kHold = absl::Seconds(60);
constexpr absl::Time kStart = absl::UnixEpoch();

FileDescriptor Something() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

TEST(HeldDescriptorsTest, HoldsForTheNextServerAndForSoLong) {
  HeldDescriptors table(kHold);
  ASSERT_TRUE(table.Claim(1));
  EXPECT_TRUE(table.Store(1, "a", Something()));
  EXPECT_EQ(table.deadline(), absl::InfiniteFuture());
  table.Leave(1, kStart);
  EXPECT_EQ(table.deadline(), kStart + kHold);
  EXPECT_FALSE(table.DropIfDue(kStart + kHold / 2));
  ASSERT_TRUE(table.Claim(2));
  EXPECT_FALSE(table.DropIfDue(kStart + 2 * kHold));
  EXPECT_EQ(table.held().size(), 1);
  table.Leave(2, kStart + kHold);
  EXPECT_TRUE(table.DropIfDue(kStart + 2 * kHold));
  EXPECT_TRUE(table.held().empty());
}

TEST(HeldDescriptorsTest, OneServerClaimsAtATime) {
  HeldDescriptors table(kHold);
  EXPECT_TRUE(table.Claim(1));
  EXPECT_TRUE(table.Claim(1));
  EXPECT_FALSE(table.Claim(2));
  EXPECT_FALSE(table.Store(2, "a", Something()));
  EXPECT_FALSE(table.Drop(2, "a"));
  table.Leave(2, kStart);
  EXPECT_FALSE(table.Claim(2));
  table.Leave(1, kStart);
  EXPECT_TRUE(table.Claim(2));
}

TEST(HeldDescriptorsTest, DropsByNameAndReplaces) {
  HeldDescriptors table(kHold);
  ASSERT_TRUE(table.Claim(1));
  EXPECT_TRUE(table.Store(1, "a", Something()));
  EXPECT_TRUE(table.Store(1, "a", Something()));
  EXPECT_EQ(table.held().size(), 1);
  EXPECT_TRUE(table.Drop(1, "none"));
  EXPECT_TRUE(table.Drop(1, "a"));
  EXPECT_TRUE(table.held().empty());
}

TEST(HeldDescriptorsTest, RefusesWhatIsNoDescriptorOrHasNoName) {
  HeldDescriptors table(kHold);
  ASSERT_TRUE(table.Claim(1));
  EXPECT_FALSE(table.Store(1, "a", FileDescriptor()));
  EXPECT_FALSE(table.Store(1, "", Something()));
  EXPECT_FALSE(
      table.Store(1, std::string(kMaxDescriptorName + 1, 'a'), Something()));
  EXPECT_TRUE(
      table.Store(1, std::string(kMaxDescriptorName, 'a'), Something()));
}

}  // namespace
}  // namespace qgemm
