// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/queue_admission.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

QueueDemand Bytes(int64_t operand_bytes) {
  QueueDemand demand;
  demand.identity = "uid 7";
  demand.rows = 1;
  demand.operand_bytes = operand_bytes;
  return demand;
}

QueueDepth Depth(int64_t requests, int64_t bytes) {
  return {requests, requests, bytes};
}

QueueLimits Limits(int64_t requests, int64_t bytes) {
  QueueLimits limits;
  limits.max_queued_requests = requests;
  limits.max_queued_bytes = bytes;
  return limits;
}

// Requests that identities in turn get in until all are refused.
std::vector<int64_t> Fill(int identities, const QueueLimits& limits) {
  std::vector<int64_t> own(identities, 0);
  int64_t all = 0;
  bool taken = true;
  while (taken) {
    taken = false;
    for (int64_t& mine : own) {
      const Refusal refusal =
          CheckQueueRoom(Bytes(1), limits, Depth(all, all), Depth(mine, mine));
      if (!refusal.status.ok()) continue;
      taken = true;
      ++mine;
      ++all;
    }
  }
  return own;
}

TEST(QueueAdmissionTest, OneIdentityFillsHalfOfTheQueue) {
  EXPECT_THAT(Fill(1, Limits(1000, 1'000'000)), testing::ElementsAre(500));
  EXPECT_THAT(Fill(1, Limits(1'000'000, 1000)), testing::ElementsAre(500));
}

TEST(QueueAdmissionTest, GreedyIdentitiesShareItAndLeaveAPartFree) {
  for (const int64_t mine : Fill(9, Limits(1000, 1'000'000))) {
    EXPECT_NEAR(mine, 100, 1);
  }
}

TEST(QueueAdmissionTest, IdentityOverItsShareIsNamed) {
  const Refusal refusal = CheckQueueRoom(Bytes(10), Limits(1000, 1'000'000),
                                         Depth(600, 6000), Depth(400, 4000));
  EXPECT_EQ(refusal.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal.reason, DropReason::kQuota);
  EXPECT_THAT(std::string(refusal.status.message()),
              AllOf(HasSubstr("\"uid 7\" is over its share"),
                    HasSubstr("400 of its requests wait"),
                    HasSubstr("room is left for 400"),
                    HasSubstr("--max_queued_requests is 1000")));
}

TEST(QueueAdmissionTest, AnotherIsServedBesideIt) {
  EXPECT_TRUE(CheckQueueRoom(Bytes(10), Limits(1000, 1'000'000),
                             Depth(600, 6000), Depth(399, 3990))
                  .status.ok());
}

TEST(QueueAdmissionTest, ShareOfBytesCountsTheRequestItself) {
  const QueueLimits limits = Limits(1000, 1000);
  const QueueDepth waiting = Depth(4, 400);
  EXPECT_TRUE(CheckQueueRoom(Bytes(200), limits, waiting, waiting).status.ok());
  const Refusal refusal = CheckQueueRoom(Bytes(201), limits, waiting, waiting);
  EXPECT_EQ(refusal.reason, DropReason::kQuota);
  EXPECT_THAT(
      std::string(refusal.status.message()),
      AllOf(HasSubstr("400 of its operand bytes wait"),
            HasSubstr("the request has 201"), HasSubstr("room is left for 600"),
            HasSubstr("--max_queued_bytes is 1000")));
}

TEST(QueueAdmissionTest, OneRequestMayFillAnEmptyQueue) {
  EXPECT_TRUE(CheckQueueRoom(Bytes(1000), Limits(1, 1000), {}, {}).status.ok());
}

QueueDemand WithQuota(const ClientQueueQuota& quota, int64_t rows,
                      int64_t operand_bytes) {
  QueueDemand demand = Bytes(operand_bytes);
  demand.rows = rows;
  demand.quota = quota;
  return demand;
}

TEST(QueueAdmissionTest, AQuotaOfTheClientIsNamedWithValueAndLimit) {
  const QueueLimits limits = Limits(1000, 1'000'000);
  const QueueDepth own = Depth(8, 80);
  EXPECT_TRUE(
      CheckQueueRoom(WithQuota({10, 90}, 2, 10), limits, own, own).status.ok());
  const Refusal rows =
      CheckQueueRoom(WithQuota({10, 0}, 3, 1), limits, own, own);
  EXPECT_EQ(rows.reason, DropReason::kQuota);
  EXPECT_THAT(std::string(rows.status.message()),
              AllOf(HasSubstr("8 of its rows wait and the request has 3"),
                    HasSubstr("(quota queued_rows) is 10")));
  const Refusal bytes =
      CheckQueueRoom(WithQuota({0, 90}, 1, 11), limits, own, own);
  EXPECT_THAT(std::string(bytes.status.message()),
              AllOf(HasSubstr("80 of its operand bytes wait"),
                    HasSubstr("(quota queued_bytes) is 90")));
  EXPECT_EQ(CheckQueueRoom(WithQuota({2, 0}, 3, 1), limits, {}, {}).reason,
            DropReason::kTooLarge);
}

TEST(QueueAdmissionTest, TheTighterOfTwoQuotasCounts) {
  QueueLimits limits = Limits(1000, 1'000'000);
  limits.max_client_queued_rows = 5;
  const QueueDepth own = Depth(5, 5);
  for (const int64_t quota : {4, 6}) {
    const Refusal refusal =
        CheckQueueRoom(WithQuota({quota, 0}, 1, 1), limits, own, own);
    EXPECT_THAT(std::string(refusal.status.message()),
                HasSubstr(quota == 4 ? "(quota queued_rows) is 4"
                                     : "(--max_client_queued_rows) is 5"));
  }
}

TEST(QueueAdmissionTest, FullQueueRefusesEverybody) {
  const Refusal requests =
      CheckQueueRoom(Bytes(1), Limits(4, 1000), Depth(4, 40), {});
  EXPECT_EQ(requests.reason, DropReason::kQueueFull);
  const Refusal bytes =
      CheckQueueRoom(Bytes(61), Limits(400, 100), Depth(4, 40), {});
  EXPECT_EQ(bytes.reason, DropReason::kQueueFull);
}

}  // namespace
}  // namespace qgemm
