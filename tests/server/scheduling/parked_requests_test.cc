// SPDX-License-Identifier: Apache-2.0
//
// Requests for a layer that does not come: the loader has no threads.

#include "server/scheduling/parked_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

class ParkedRequestsTest : public testing::Test {
 protected:
  ~ParkedRequestsTest() override { loader_.Stop(); }

  struct Parked {
    std::future<absl::Status> status;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };

  Parked Park(absl::Time deadline = absl::InfiniteFuture()) {
    auto ended = std::make_shared<std::promise<absl::Status>>();
    Parked parked;
    parked.status = ended->get_future();
    parked.cancelled = std::make_shared<std::atomic<bool>>(false);
    auto layer = std::make_shared<Weights>();
    layer->id = std::string(64, 'a');
    auto request = std::make_unique<AdmittedRequest>();
    request->layer = std::move(layer);
    request->deadline = deadline;
    request->cancelled = parked.cancelled;
    request->done = [ended](absl::Status status, const GemmTimings&,
                            std::unique_ptr<AdmittedRequest>) {
      ended->set_value(std::move(status));
    };
    requests_.Park(std::move(request));
    return parked;
  }

  FakeClock clock_;
  WeightStore store_{StoreLimits()};
  LayerLoader loader_{nullptr, &store_, LayerLoaderOptions()};
  ParkedRequests requests_{{nullptr, &loader_, nullptr, &clock_}, 2};
};

TEST_F(ParkedRequestsTest, EndAtTheirDeadline) {
  Parked parked = Park(clock_.Now() + absl::Seconds(5));
  Parked later = Park(clock_.Now() + absl::Seconds(50));
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
  Parked first = Park();
  Parked second = Park();
  const absl::Status refused = Park().status.get();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--max_queued_requests"));
  *first.cancelled = true;
  first.status.wait();
  Parked third = Park();
  requests_.Drain();
  EXPECT_TRUE(absl::IsUnavailable(second.status.get()));
  EXPECT_TRUE(absl::IsUnavailable(third.status.get()));
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
