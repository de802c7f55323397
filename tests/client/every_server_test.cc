// SPDX-License-Identifier: Apache-2.0

#include "client/every_server.h"

#include <gtest/gtest.h>

#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

TEST(JoinEndsTest, AllOkIsOk) {
  EXPECT_TRUE(JoinEnds({{"a:1", absl::OkStatus()}}).ok());
  EXPECT_TRUE(
      JoinEnds({{"a:1", absl::OkStatus()}, {"b:1", absl::OkStatus()}}).ok());
}

TEST(JoinEndsTest, TheOnlyServersErrorIsItself) {
  const absl::Status error = absl::NotFoundError("no such weights");
  EXPECT_EQ(JoinEnds({{"a:1", error}}), error);
}

TEST(JoinEndsTest, NamesEachServerThatFailed) {
  EXPECT_EQ(JoinEnds({{"a:1", absl::OkStatus()},
                      {"b:1", absl::UnavailableError("draining")},
                      {"unix:/c", absl::NotFoundError("no such weights")}}),
            absl::UnavailableError(
                "failed at 2 of 3 servers: b:1: UNAVAILABLE: draining; "
                "unix:/c: NOT_FOUND: no such weights"));
}

TEST(JoinEndsTest, KeepsTheFirstTimeToRetry) {
  const absl::Status joined = JoinEnds(
      {{"a:1", WithRetryDelay(absl::ResourceExhaustedError("the queue is full"),
                              absl::Seconds(2))},
       {"b:1", absl::OkStatus()}});
  EXPECT_EQ(joined,
            WithRetryDelay(
                absl::ResourceExhaustedError(
                    "failed at 1 of 2 servers: a:1: RESOURCE_EXHAUSTED: the "
                    "queue is full"),
                absl::Seconds(2)));
}

}  // namespace
}  // namespace qgemm
