// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lane/messages.h"
#include "server/lane/lane.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

LaneHandle Named(const std::string& name) {
  return {lane::HandleKind::kWeights, name, "client"};
}

class LaneHandlesTest : public testing::Test {
 protected:
  // Opens as many as a lane may have, by the names "0", "1" and so on.
  void Fill() {
    for (size_t i = 0; i < LaneHandles::kMostHandles; ++i) {
      const auto number = handles_.Open(Named(absl::StrCat(i)));
      ASSERT_TRUE(number.ok()) << number.status();
      numbers_.push_back(*number);
    }
  }

  std::string NameOf(uint32_t number) const {
    const auto found = handles_.Find(number);
    return found.ok() ? (*found)->name : found.status().ToString();
  }

  LaneHandles handles_;
  std::vector<uint32_t> numbers_;
};

TEST_F(LaneHandlesTest, RefusesMoreThanALaneMayHave) {
  Fill();
  const auto beyond = handles_.Open(Named("beyond"));
  EXPECT_TRUE(absl::IsResourceExhausted(beyond.status()));
  EXPECT_THAT(std::string(beyond.status().message()),
              HasSubstr("handles = 2049; a lane has at most 2048"));
}

TEST_F(LaneHandlesTest, GoesOnAfterARefusal) {
  Fill();
  ASSERT_FALSE(handles_.Open(Named("beyond")).ok());
  EXPECT_EQ(NameOf(numbers_.front()), "0");
  EXPECT_EQ(NameOf(numbers_.back()), "2047");
  ASSERT_EQ(handles_.Close(numbers_.front()), absl::OkStatus());
  const auto next = handles_.Open(Named("next"));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(NameOf(*next), "next");
  EXPECT_FALSE(handles_.Open(Named("beyond")).ok());
}

TEST_F(LaneHandlesTest, ClosedOnesAreNotThere) {
  const auto number = handles_.Open(Named("layer"));
  ASSERT_TRUE(number.ok());
  ASSERT_EQ(handles_.Close(*number), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(handles_.Find(*number).status()));
  EXPECT_TRUE(absl::IsNotFound(handles_.Close(*number)));
}

}  // namespace
}  // namespace qgemm
