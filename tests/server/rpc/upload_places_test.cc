// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/upload_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

struct FakeUpload {};
using UploadPtr = std::shared_ptr<FakeUpload>;

class UploadPlacesTest : public testing::Test {
 protected:
  // Enters an upload of that client; what it displaces is in displaced_.
  absl::Status Enter(const std::string& identity, size_t quota = 0) {
    uploads_.push_back(std::make_shared<FakeUpload>());
    absl::StatusOr<UploadPtr> displaced =
        places_.Enter(uploads_.back(), identity, quota);
    displaced_ = displaced.ok() ? *displaced : nullptr;
    if (!displaced.ok()) uploads_.pop_back();
    return displaced.status();
  }

  LiveCalls live_calls_;
  UploadPlaces<FakeUpload> places_{&live_calls_, 4};
  std::vector<UploadPtr> uploads_;  // those that entered, in order
  UploadPtr displaced_;
};

TEST_F(UploadPlacesTest, OneClientMayTakeAllPlaces) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(Enter("a").ok());
    EXPECT_EQ(displaced_, nullptr);
  }
  EXPECT_EQ(places_.Calls().size(), 4u);
}

TEST_F(UploadPlacesTest, AClientHasAsManyPlacesAsItsQuota) {
  EXPECT_TRUE(Enter("a", 2).ok());
  EXPECT_TRUE(Enter("a", 2).ok());
  const absl::Status refused = Enter("a", 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("2 uploads of \"a\""));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  EXPECT_TRUE(Enter("b", 2).ok());
  places_.Leave(uploads_[0].get());
  EXPECT_TRUE(Enter("a", 2).ok());
}

TEST_F(UploadPlacesTest, RefusesOneMoreOfTheSameClientWithTheTimeToRetry) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("a").ok());
  const absl::Status refused = Enter("a");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("the limit is 4 (--max_uploads)"));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
}

TEST_F(UploadPlacesTest, AnotherClientGetsTheLatestPlacesUpToHalf) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("a").ok());
  EXPECT_TRUE(Enter("b").ok());
  EXPECT_EQ(displaced_, uploads_[3]);
  EXPECT_TRUE(Enter("b").ok());
  EXPECT_EQ(displaced_, uploads_[2]);
  EXPECT_FALSE(Enter("b").ok());
  EXPECT_FALSE(Enter("a").ok());
  EXPECT_EQ(places_.Calls().size(), 4u);
}

TEST_F(UploadPlacesTest, AThirdClientGetsOneOfTwoThatHaveHalf) {
  for (const char* identity : {"a", "b", "a", "b"}) {
    EXPECT_TRUE(Enter(identity).ok());
  }
  EXPECT_TRUE(Enter("c").ok());
  EXPECT_NE(displaced_, nullptr);
  EXPECT_FALSE(Enter("c").ok());
}

TEST_F(UploadPlacesTest, DisplacesNobodyWhileAPlaceIsFree) {
  for (const char* identity : {"a", "a", "a", "b"}) {
    EXPECT_TRUE(Enter(identity).ok());
    EXPECT_EQ(displaced_, nullptr);
  }
}

TEST_F(UploadPlacesTest, APlaceThatWasLeftIsFree) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("a").ok());
  places_.Leave(uploads_[1].get());
  EXPECT_TRUE(Enter("a").ok());
  EXPECT_EQ(displaced_, nullptr);
  EXPECT_FALSE(Enter("a").ok());
}

TEST_F(UploadPlacesTest, LeavingWithoutAPlaceFreesNone) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("a").ok());
  EXPECT_TRUE(Enter("b").ok());
  places_.Leave(displaced_.get());  // lost its place already
  EXPECT_EQ(places_.Calls().size(), 4u);
}

TEST_F(UploadPlacesTest, OnlyPlaceIsNotTakenFromItsClient) {
  UploadPlaces<FakeUpload> one(&live_calls_, 1);
  const auto first = std::make_shared<FakeUpload>();
  EXPECT_TRUE(one.Enter(first, "a").ok());
  EXPECT_EQ(one.Enter(std::make_shared<FakeUpload>(), "b").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(UploadPlacesTest, TheErrorOfALostPlaceSaysWhenToRetry) {
  const absl::Status lost = places_.Displaced();
  EXPECT_EQ(lost.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(lost).has_value());
}

TEST_F(UploadPlacesTest, RefusesWhileTheServerDrains) {
  live_calls_.BeginDrain();
  EXPECT_EQ(Enter("a").code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace qgemm
