// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace qgemm {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  return std::string(status.message());
}

TEST(LaneQuotaTest, OneClientHasHalfOfAll) {
  LaneQuota quota({4, 1000, 0});
  EXPECT_THAT(ErrorOf(quota.Take("a", 501)),
              HasSubstr("--max_client_lane_bytes"));
  EXPECT_EQ(quota.Take("a", 400), absl::OkStatus());
  EXPECT_THAT(ErrorOf(quota.Take("a", 101)),
              HasSubstr("a lane of 101 bytes: a has lanes of 400 bytes"));
  EXPECT_EQ(quota.Take("a", 100), absl::OkStatus());
  EXPECT_THAT(ErrorOf(quota.Take("a", 0)), HasSubstr("half of --max_lanes"));
  EXPECT_EQ(quota.Take("b", 500), absl::OkStatus());
  EXPECT_THAT(ErrorOf(quota.Take("c", 1)), HasSubstr("--max_lane_bytes"));
  EXPECT_EQ(quota.Take("c", 0), absl::OkStatus());
  EXPECT_THAT(ErrorOf(quota.Take("d", 0)), HasSubstr("--max_lanes"));
}

TEST(LaneQuotaTest, GivesBackWhatWasTaken) {
  LaneQuota quota({2, 1000, 1000});
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(quota.Take("a", 1000), absl::OkStatus());
    EXPECT_EQ(quota.bytes(), 1000);
    quota.Return("a", 1000);
  }
  EXPECT_EQ(quota.lanes(), 0);
  EXPECT_EQ(quota.bytes(), 0);
}

TEST(LaneQuotaTest, OneLaneIsForAnybody) {
  LaneQuota quota({1, 1000, 0});
  EXPECT_EQ(quota.Take("a", 1), absl::OkStatus());
}

}  // namespace
}  // namespace qgemm
