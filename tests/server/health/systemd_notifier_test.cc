// SPDX-License-Identifier: Apache-2.0
//
// Datagrams at a socket of the test in systemd's place.

#include "server/health/systemd_notifier.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/datagram_socket.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SystemdNotifierTest : public testing::Test {
 protected:
  std::unique_ptr<SystemdNotifier> Create(const std::string& watchdog_usec,
                                          const std::string& pid = "") {
    auto notifier =
        SystemdNotifier::Create({path_, watchdog_usec, pid}, &clock_);
    CHECK(notifier.ok()) << notifier.status();
    return *std::move(notifier);
  }

  const Health serves_ = {HealthState::kServing, false, ""};
  const Health drains_ = {HealthState::kDraining, false, "draining"};
  const Health hangs_ = {HealthState::kFailed, true, "a launch hangs"};
  const Health is_deaf_ = {HealthState::kFailed, false, "a listener is deaf"};
  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("notify");
  DatagramSocket systemd_{path_};
  FakeClock clock_;
};

TEST_F(SystemdNotifierTest, TellsOfTheStartAndTheEnd) {
  const auto notifier = Create("");
  notifier->NotifyReady("serving on\n127.0.0.1:50051");
  EXPECT_THAT(systemd_.TakeAll(),
              ElementsAre("READY=1\nSTATUS=serving on 127.0.0.1:50051"));
  notifier->NotifyStopping();
  EXPECT_THAT(systemd_.TakeAll(), ElementsAre("STOPPING=1"));
}

TEST_F(SystemdNotifierTest, PingsTwiceInTheWatchdogsTime) {
  const auto notifier = Create("20000000");
  int pings = 0;
  for (int look = 0; look < 600; ++look) {  // a minute
    notifier->Report(serves_);
    pings += systemd_.TakeAll().size();
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(pings, 6);
}

TEST_F(SystemdNotifierTest, PingsWhileItDrains) {
  const auto notifier = Create("20000000");
  notifier->Report(drains_);
  EXPECT_THAT(systemd_.TakeAll(),
              ElementsAre("STATUS=draining: draining", "WATCHDOG=1"));
}

TEST_F(SystemdNotifierTest, DoesNotPingWhileALaunchHangsOrAListenerIsDeaf) {
  const auto notifier = Create("20000000");
  notifier->Report(is_deaf_);
  EXPECT_THAT(systemd_.TakeAll(),
              ElementsAre("STATUS=failed: a listener is deaf"));
  notifier->Report(serves_);
  EXPECT_THAT(systemd_.TakeAll(), ElementsAre("STATUS=serving", "WATCHDOG=1"));
  for (int look = 0; look < 600; ++look) {
    clock_.Advance(absl::Milliseconds(100));
    notifier->Report(hangs_);
  }
  EXPECT_THAT(systemd_.TakeAll(), ElementsAre("STATUS=failed: a launch hangs"));
}

TEST_F(SystemdNotifierTest, WithoutAWatchdogOfThisProcessDoesNotPing) {
  Create("")->Report(serves_);
  Create("20000000", "1")->Report(serves_);
  EXPECT_THAT(systemd_.TakeAll(), IsEmpty());
  Create("20000000", absl::StrCat(getpid()))->Report(serves_);
  EXPECT_THAT(systemd_.TakeAll(), ElementsAre("WATCHDOG=1"));
}

TEST_F(SystemdNotifierTest, PingsAgainOnceSystemdIsBack) {
  const auto notifier = Create("20000000");
  unlink(path_.c_str());
  notifier->Report(serves_);
  DatagramSocket restarted(path_);
  notifier->Report(serves_);
  EXPECT_THAT(restarted.TakeAll(), ElementsAre("WATCHDOG=1"));
}

TEST_F(SystemdNotifierTest, SendsToAnAbstractName) {
  const std::string name = absl::StrCat("@", path_);
  DatagramSocket abstract(name);
  const auto notifier = SystemdNotifier::Create({name, "", ""}, &clock_);
  ASSERT_TRUE(notifier.ok());
  (*notifier)->NotifyStopping();
  EXPECT_THAT(abstract.TakeAll(), ElementsAre("STOPPING=1"));
}

TEST_F(SystemdNotifierTest, WithoutASocketSaysNothing) {
  const auto notifier = SystemdNotifier::Create({"", "nonsense", ""}, &clock_);
  ASSERT_TRUE(notifier.ok());
  (*notifier)->NotifyReady("serving");
  (*notifier)->Report(hangs_);
  EXPECT_THAT(systemd_.TakeAll(), IsEmpty());
}

TEST_F(SystemdNotifierTest, RefusesAnEnvironmentThatCannotBeRight) {
  for (const SystemdEnvironment& environment :
       {SystemdEnvironment{"relative", "", ""}, SystemdEnvironment{"@", "", ""},
        SystemdEnvironment{"/" + std::string(108, 'x'), "", ""}}) {
    EXPECT_THAT(
        SystemdNotifier::Create(environment, &clock_).status().ToString(),
        AllOf(HasSubstr("INVALID_ARGUMENT: NOTIFY_SOCKET = "),
              HasSubstr(environment.notify_socket)));
  }
  for (const char* const time : {"0", "-1", "1s", "99999999999999999999"}) {
    EXPECT_THAT(
        SystemdNotifier::Create({path_, time, ""}, &clock_).status().ToString(),
        HasSubstr(absl::StrCat("WATCHDOG_USEC = \"", time, "\"")));
  }
}

}  // namespace
}  // namespace qgemm
