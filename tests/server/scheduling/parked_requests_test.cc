// SPDX-License-Identifier: Apache-2.0
//
// Requests for a layer that does not come: the loader has no threads.

#include "server/scheduling/parked_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMaxRequests = 4;
constexpr int64_t kRows = 3;  // of each request
constexpr int64_t kOperandBytes = 64;

class ParkedRequestsTest : public testing::Test {
 protected:
  ~ParkedRequestsTest() override { loader_.Stop(); }

  struct Parked {
    std::future<absl::Status> status;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };

  Parked Park(const std::string& identity = "a",
              absl::Time deadline = absl::InfiniteFuture(),
              const ClientQueueQuota& quota = {}) {
    auto ended = std::make_shared<std::promise<absl::Status>>();
    Parked parked;
    parked.status = ended->get_future();
    parked.cancelled = std::make_shared<std::atomic<bool>>(false);
    auto layer = std::make_shared<Weights>();
    layer->id = std::string(64, 'a');
    auto request = std::make_unique<AdmittedRequest>();
    request->layer = std::move(layer);
    request->m = kRows;
    request->a = StagingLease(operands_.data(), kOperandBytes, [] {});
    request->identity = identity;
    request->quota = quota;
    request->deadline = deadline;
    request->cancelled = parked.cancelled;
    request->done = [ended](absl::Status status, const GemmTimings&,
                            std::unique_ptr<AdmittedRequest>) {
      ended->set_value(std::move(status));
    };
    requests_.Park(std::move(request));
    return parked;
  }

  // Fills the identity's half of what may wait.
  std::vector<Parked> ParkHalf(const std::string& identity,
                               absl::Time deadline = absl::InfiniteFuture()) {
    std::vector<Parked> half;
    for (int64_t i = 0; i < kMaxRequests / 2; ++i) {
      half.push_back(Park(identity, deadline));
    }
    return half;
  }

  static bool IsWaiting(const Parked& parked) {
    return parked.status.wait_for(std::chrono::seconds(0)) ==
           std::future_status::timeout;
  }

  // The refusal of a request that must be refused at once.
  static std::string RefusalOf(Parked parked) {
    if (IsWaiting(parked)) return "none";
    const absl::Status refused = parked.status.get();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    return std::string(refused.message());
  }

  alignas(64) std::array<uint8_t, kOperandBytes> operands_ = {};
  FakeClock clock_;
  WeightStore store_{StoreLimits()};
  LayerLoader loader_{nullptr, &store_, LayerLoaderOptions()};
  ParkedRequests requests_{{nullptr, &loader_, nullptr, &clock_}, kMaxRequests};
};

TEST_F(ParkedRequestsTest, EndAtTheirDeadline) {
  Parked parked = Park("a", clock_.Now() + absl::Seconds(5));
  Parked later = Park("a", clock_.Now() + absl::Seconds(50));
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(parked.status.get()));
  clock_.Advance(absl::Seconds(45));
  EXPECT_TRUE(absl::IsDeadlineExceeded(later.status.get()));
}

TEST_F(ParkedRequestsTest, EndWhenTheirCallerGoes) {
  Parked parked = Park();
  *parked.cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(parked.status.get()));
}

TEST_F(ParkedRequestsTest, AreRefusedBeyondTheirNumber) {
  std::vector<Parked> parked = ParkHalf("a");
  parked.push_back(Park("b"));
  parked.push_back(Park("c"));
  EXPECT_THAT(RefusalOf(Park("d")),
              AllOf(HasSubstr("layers on the disk"),
                    HasSubstr("4 requests wait, the limit is 4")));
  *parked[0].cancelled = true;
  parked[0].status.wait();
  EXPECT_TRUE(IsWaiting(Park("d")));
}

TEST_F(ParkedRequestsTest, OfOneIdentityLeaveHalfToOthers) {
  const std::vector<Parked> half = ParkHalf("a");
  EXPECT_THAT(RefusalOf(Park("a")),
              AllOf(HasSubstr("layers on the disk"),
                    HasSubstr("\"a\" is over its share"),
                    HasSubstr("--max_queued_requests is 4")));
  EXPECT_TRUE(IsWaiting(Park("b")));
  for (const Parked& parked : half) EXPECT_TRUE(IsWaiting(parked));
}

TEST_F(ParkedRequestsTest, KeepToTheQuotaOfTheirIdentity) {
  const ClientQueueQuota rows_of_one = {2 * kRows - 1, 0};
  const ClientQueueQuota bytes_of_one = {0, 2 * kOperandBytes - 1};
  const Parked parked = Park("a", absl::InfiniteFuture(), rows_of_one);
  EXPECT_TRUE(IsWaiting(parked));
  EXPECT_THAT(
      RefusalOf(Park("a", absl::InfiniteFuture(), rows_of_one)),
      AllOf(HasSubstr("\"a\" is over its quota"), HasSubstr("queued_rows")));
  EXPECT_THAT(
      RefusalOf(Park("a", absl::InfiniteFuture(), bytes_of_one)),
      AllOf(HasSubstr("\"a\" is over its quota"), HasSubstr("queued_bytes")));
  EXPECT_TRUE(IsWaiting(Park("b", absl::InfiniteFuture(), rows_of_one)));
}

TEST_F(ParkedRequestsTest, LeaveTheirShareWhenTheyExpire) {
  std::vector<Parked> half = ParkHalf("a", clock_.Now() + absl::Seconds(5));
  clock_.Advance(absl::Seconds(5));
  for (Parked& parked : half) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(parked.status.get()));
  }
  for (const Parked& parked : ParkHalf("a")) EXPECT_TRUE(IsWaiting(parked));
}

TEST_F(ParkedRequestsTest, LeaveTheirShareWhenTheyResume) {
  std::vector<Parked> waited = ParkHalf("a");
  loader_.Stop();  // resumes them, and each that comes, with an error
  for (int64_t i = 0; i < kMaxRequests; ++i) waited.push_back(Park("a"));
  for (Parked& parked : waited) {
    EXPECT_TRUE(absl::IsUnavailable(parked.status.get()));
  }
}

TEST_F(ParkedRequestsTest, EndInADrainAndAfterIt) {
  Parked before = Park();
  requests_.Drain();
  EXPECT_TRUE(absl::IsUnavailable(before.status.get()));
  EXPECT_TRUE(absl::IsUnavailable(Park().status.get()));
}

TEST_F(ParkedRequestsTest, EndWithTheLoader) {
  Parked before = Park();
  loader_.Stop();
  EXPECT_TRUE(absl::IsUnavailable(before.status.get()));
  EXPECT_TRUE(absl::IsUnavailable(Park().status.get()));
}

}  // namespace
}  // namespace qgemm
