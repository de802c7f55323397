// SPDX-License-Identifier: Apache-2.0
//
// The decision, fact by fact.

#include "server/health/health.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

HealthFacts Serving() {
  HealthFacts facts;
  facts.started = true;
  facts.launch_timeout = absl::Seconds(30);
  return facts;
}

HealthFacts Lost() {
  HealthFacts facts = Serving();
  facts.backend = absl::UnavailableError("the GPU is lost");
  return facts;
}

HealthFacts Hanging() {
  HealthFacts facts = Serving();
  facts.oldest_launch = absl::Seconds(31);
  return facts;
}

HealthFacts Draining() {
  HealthFacts facts = Serving();
  facts.draining = true;
  return facts;
}

HealthFacts Deaf() {
  HealthFacts facts = Serving();
  facts.listeners = absl::DeadlineExceededError("127.0.0.1:1 is silent");
  return facts;
}

HealthFacts With(HealthFacts facts, void (*change)(HealthFacts* facts)) {
  change(&facts);
  return facts;
}

struct Case {
  std::string name;
  HealthFacts facts;
  HealthState state;
  bool is_fatal;
  bool is_live;
  bool is_ready;
  std::string reason;
};

std::vector<Case> Cases() {
  using State = HealthState;
  const auto drain = [](HealthFacts* facts) { facts->draining = true; };
  const auto stop = [](HealthFacts* facts) { facts->started = false; };
  return {
      {"Starting", HealthFacts(), State::kStarting, false, true, false,
       "starting"},
      {"Serving", Serving(), State::kServing, false, true, true, ""},
      {"Draining", Draining(), State::kDraining, false, true, false, "drain"},
      {"DrainingBeforeTheStart", With(Draining(), stop), State::kDraining,
       false, true, false, "drain"},
      {"LostDevice", Lost(), State::kFailed, true, false, false,
       "the GPU is lost"},
      {"LostDeviceWhileDraining", With(Lost(), drain), State::kFailed, true,
       false, false, "the GPU is lost"},
      {"LostDeviceBeforeTheStart", With(Lost(), stop), State::kFailed, true,
       false, false, "the GPU is lost"},
      {"HangingLaunch", Hanging(), State::kFailed, true, false, false,
       "31s; the limit is 30s (--launch_timeout)"},
      {"HangingLaunchWhileDraining", With(Hanging(), drain), State::kFailed,
       true, false, false, "--launch_timeout"},
      {"LaunchAtTheLimit",
       With(Serving(),
            [](HealthFacts* facts) {
              facts->oldest_launch = absl::Seconds(30);
            }),
       State::kServing, false, true, true, ""},
      {"OldLaunchWithoutALimit",
       With(Hanging(),
            [](HealthFacts* facts) {
              facts->launch_timeout = absl::InfiniteDuration();
            }),
       State::kServing, false, true, true, ""},
      {"DeafListener", Deaf(), State::kFailed, false, false, false,
       "127.0.0.1:1 is silent"},
      {"DeafListenerWhileDraining", With(Deaf(), drain), State::kDraining,
       false, true, false, "drain"},
      {"MissingName",
       With(Serving(),
            [](HealthFacts* facts) { facts->missing_name = "model/head"; }),
       State::kStarting, false, true, false, "\"model/head\" is not loaded"},
      {"LostDeviceBehindADeafListener",
       With(Deaf(),
            [](HealthFacts* facts) { facts->backend = Lost().backend; }),
       State::kFailed, true, false, false, "the GPU is lost"},
  };
}

class DecideHealthTest : public testing::TestWithParam<Case> {};

TEST_P(DecideHealthTest, FollowsTheGravestFact) {
  const Case& expected = GetParam();
  const Health health = DecideHealth(expected.facts);
  EXPECT_EQ(health.state, expected.state);
  EXPECT_EQ(health.is_fatal, expected.is_fatal);
  EXPECT_EQ(health.is_live(), expected.is_live);
  EXPECT_EQ(health.is_ready(), expected.is_ready);
  EXPECT_THAT(health.reason, HasSubstr(expected.reason));
  EXPECT_EQ(health.reason.empty(), expected.state == HealthState::kServing);
}

INSTANTIATE_TEST_SUITE_P(Facts, DecideHealthTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace qgemm
