// SPDX-License-Identifier: Apache-2.0
//
// Looks by hand, on a clock that the test moves; the thread in one case.

#include "server/health/health_monitor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr absl::Duration kLaunchTimeout = absl::Seconds(3);

class HealthMonitorTest : public testing::Test {
 protected:
  HealthMonitorTest() {
    HealthSources sources;
    sources.backend_failure = [this] { return backend_; };
    sources.oldest_launch = [this] { return oldest_; };
    sources.backend_progress = [this] { return progress_; };
    sources.probe_listeners = [this] {
      ++probes_;
      return listeners_;
    };
    sources.missing_name = [this] { return missing_name_; };
    HealthMonitorOptions options;
    options.interval = kInterval;
    options.launch_timeout = kLaunchTimeout;
    options.probe_interval = absl::Seconds(2);
    monitor_ = std::make_unique<HealthMonitor>(
        options, std::move(sources), &clock_, [this](const Health& health) {
          MutexLock lock(&mutex_);
          published_.push_back(health);
          changed_.SignalAll();
        });
  }

  // Looks every interval for so long.
  void LookFor(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += kInterval) {
      clock_.Advance(kInterval);
      monitor_->Look();
    }
  }

  std::vector<HealthState> states() {
    MutexLock lock(&mutex_);
    std::vector<HealthState> states;
    for (const Health& health : published_) states.push_back(health.state);
    return states;
  }

  Health last() {
    MutexLock lock(&mutex_);
    return published_.back();
  }

  FakeClock clock_;
  absl::Status backend_;
  std::optional<uint64_t> oldest_;
  uint64_t progress_ = 0;
  absl::Status listeners_;
  int probes_ = 0;
  std::string missing_name_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Health> published_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HealthMonitor> monitor_;
};

TEST_F(HealthMonitorTest, PublishesTheStartAndTheDrainAtOnce) {
  LookFor(absl::Seconds(1));
  EXPECT_THAT(states(), IsEmpty());
  monitor_->SetStarted();
  EXPECT_THAT(states(), ElementsAre(HealthState::kServing));
  monitor_->SetDraining();
  EXPECT_THAT(states(),
              ElementsAre(HealthState::kServing, HealthState::kDraining));
}

TEST_F(HealthMonitorTest, PublishesOnlyChanges) {
  monitor_->SetStarted();
  LookFor(absl::Seconds(10));
  EXPECT_THAT(states(), ElementsAre(HealthState::kServing));
}

TEST_F(HealthMonitorTest, PublishesALostDeviceOnceAndForGood) {
  monitor_->SetStarted();
  backend_ = absl::UnavailableError("the GPU is lost");
  monitor_->Look();
  EXPECT_EQ(last().state, HealthState::kFailed);
  EXPECT_TRUE(last().is_fatal);
  EXPECT_EQ(monitor_->failure(), backend_);
  backend_ = absl::OkStatus();
  LookFor(absl::Seconds(1));
  monitor_->SetDraining();
  EXPECT_THAT(states(),
              ElementsAre(HealthState::kServing, HealthState::kFailed));
  EXPECT_TRUE(absl::IsUnavailable(monitor_->failure()));
}

TEST_F(HealthMonitorTest, ALaunchThatStaysTheOldestHangsInTheEnd) {
  monitor_->SetStarted();
  oldest_ = 7;
  monitor_->Look();
  LookFor(kLaunchTimeout);
  EXPECT_EQ(last().state, HealthState::kServing);
  LookFor(kInterval);
  EXPECT_EQ(last().state, HealthState::kFailed);
  EXPECT_THAT(last().reason, HasSubstr("--launch_timeout"));
  EXPECT_TRUE(absl::IsUnavailable(monitor_->failure()));
}

TEST_F(HealthMonitorTest, LaunchesThatFollowOneAnotherDoNotHang) {
  monitor_->SetStarted();
  for (uint64_t number = 1; number <= 20; ++number) {
    oldest_ = number;
    LookFor(kLaunchTimeout - kInterval);
    oldest_ = std::nullopt;
    if (number % 2 == 0) LookFor(kInterval);
  }
  EXPECT_THAT(states(), ElementsAre(HealthState::kServing));
}

TEST_F(HealthMonitorTest, ALaunchHangsOnlyOnceItMakesNoProgress) {
  monitor_->SetStarted();
  oldest_ = 7;
  for (int i = 0; i < 20; ++i) {
    ++progress_;
    LookFor(kLaunchTimeout);
  }
  EXPECT_THAT(states(), ElementsAre(HealthState::kServing));
  LookFor(2 * kInterval);
  EXPECT_EQ(last().state, HealthState::kFailed);
  EXPECT_THAT(last().reason, HasSubstr("no progress"));
}

TEST_F(HealthMonitorTest, TimeInWhichTheProcessStoodStillDoesNotCount) {
  monitor_->SetStarted();
  oldest_ = 1;
  LookFor(absl::Seconds(1));
  clock_.Advance(absl::Hours(1));  // SIGSTOP
  LookFor(absl::Seconds(1));
  EXPECT_EQ(last().state, HealthState::kServing);
  LookFor(absl::Seconds(1));
  EXPECT_EQ(last().state, HealthState::kFailed);
}

TEST_F(HealthMonitorTest, AListenerThatAnswersAgainIsServingAgain) {
  monitor_->SetStarted();
  listeners_ = absl::DeadlineExceededError("silent");
  LookFor(absl::Seconds(3));
  EXPECT_EQ(last().state, HealthState::kFailed);
  EXPECT_FALSE(last().is_fatal);
  EXPECT_EQ(monitor_->failure(), absl::OkStatus());
  listeners_ = absl::OkStatus();
  LookFor(absl::Seconds(3));
  EXPECT_THAT(states(), ElementsAre(HealthState::kServing, HealthState::kFailed,
                                    HealthState::kServing));
}

TEST_F(HealthMonitorTest, ProbesListenersAtTheirIntervalWhileItServes) {
  LookFor(absl::Seconds(10));
  EXPECT_EQ(probes_, 0);
  monitor_->SetStarted();
  LookFor(absl::Seconds(10));
  EXPECT_EQ(probes_, 5);
  monitor_->SetDraining();
  LookFor(absl::Seconds(10));
  EXPECT_EQ(probes_, 5);
}

TEST_F(HealthMonitorTest, StartsUntilEveryNameHasBeenBound) {
  missing_name_ = "a";
  monitor_->SetStarted();
  LookFor(absl::Seconds(1));
  EXPECT_THAT(last().reason, HasSubstr("\"a\" is not loaded yet"));
  missing_name_ = "b";
  LookFor(absl::Seconds(1));
  EXPECT_THAT(last().reason, HasSubstr("\"b\""));
  missing_name_ = "";
  LookFor(absl::Seconds(1));
  missing_name_ = "a";  // unloaded
  LookFor(absl::Seconds(1));
  EXPECT_THAT(states(),
              ElementsAre(HealthState::kStarting, HealthState::kStarting,
                          HealthState::kServing));
}

TEST_F(HealthMonitorTest, AnObserverIsToldAtEachLookWhetherItIsAlive) {
  std::vector<bool> alive;
  monitor_->Observe(
      [&](const Health& health) { alive.push_back(health.is_live()); });
  monitor_->SetStarted();
  LookFor(3 * kInterval);
  EXPECT_THAT(alive, ElementsAre(true, true, true, true));
  oldest_ = 1;
  LookFor(kLaunchTimeout + 2 * kInterval);
  EXPECT_FALSE(alive.back());
  monitor_->SetDraining();
  EXPECT_FALSE(alive.back());
}

TEST_F(HealthMonitorTest, ItsThreadLooksUntilItIsStopped) {
  monitor_->SetStarted();
  backend_ = absl::UnavailableError("the GPU is lost");
  monitor_->Start();
  {
    MutexLock lock(&mutex_);
    while (published_.size() < 2) changed_.Wait(&mutex_);
  }
  monitor_->Stop();
  EXPECT_EQ(last().state, HealthState::kFailed);
}

}  // namespace
}  // namespace qgemm
