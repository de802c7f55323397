// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that systemd passes, and those that it is asked to keep.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/keep/holders.h"
#include "tests/support/datagram_socket.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// True in a child that has descriptors 3 and 4 open and 5 closed.
bool TrueInChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, 3);
    dup2(null, 4);
    close(5);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(SystemdHolderTest, TakesWhatWasPassedByItsName) {
  EXPECT_TRUE(TrueInChild([] {
    const auto passed =
        TakeListenDescriptors({absl::StrCat(getpid()), "2", "one:two"});
    return passed.ok() && passed->size() == 2 && (*passed)[0].name == "one" &&
           (*passed)[1].name == "two" && (*passed)[1].descriptor.get() == 4 &&
           (fcntl(4, F_GETFD) & FD_CLOEXEC) != 0;
  }));
}

TEST(SystemdHolderTest, TakesNothingThatIsMeantForAnother) {
  EXPECT_TRUE(TrueInChild([] {
    const auto none = TakeListenDescriptors({"", "", ""});
    const auto others = TakeListenDescriptors({"1", "2", "one:two"});
    return none.ok() && none->empty() && others.ok() && others->empty() &&
           fcntl(3, F_GETFD) == 0;
  }));
}

TEST(SystemdHolderTest, RefusesNumbersThatCannotBeRight) {
  EXPECT_TRUE(TrueInChild([] {
    for (const char* const count : {"x", "-1", "3", "1000000"}) {
      if (TakeListenDescriptors({absl::StrCat(getpid()), count, ""}).ok()) {
        return false;
      }
    }
    return true;
  }));
}

TEST(SystemdHolderTest, AsksSystemdToKeepAndToDrop) {
  const TemporaryFolder folder;
  DatagramSocket systemd(folder.File("notify"));
  const FakeClock clock;
  const auto notifier =
      SystemdNotifier::Create({folder.File("notify"), "", ""}, &clock);
  ASSERT_TRUE(notifier.ok());
  SystemdHolder holder({}, notifier->get());
  EXPECT_THAT(*holder.Claim(), IsEmpty());
  EXPECT_TRUE(holder.Store("chunk", 0).ok());
  EXPECT_TRUE(holder.Drop("chunk").ok());
  EXPECT_THAT(systemd.TakeAll(),
              ElementsAre("FDSTORE=1\nFDPOLL=0\nFDNAME=chunk",
                          "FDSTOREREMOVE=1\nFDNAME=chunk"));
}

TEST(SystemdHolderTest, TheDatagramHasTheDescriptor) {
  const TemporaryFolder folder;
  DatagramSocket systemd(folder.File("notify"));
  const FakeClock clock;
  const auto notifier =
      SystemdNotifier::Create({folder.File("notify"), "", ""}, &clock);
  ASSERT_TRUE(notifier.ok());
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  EXPECT_TRUE((*notifier)->StoreDescriptor("pipe", writer.get()));
  writer.Reset();
  FileDescriptor kept = systemd.NextDescriptor();
  ASSERT_TRUE(kept.valid());
  EXPECT_EQ(write(kept.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 1);
}

TEST(SystemdHolderTest, WithoutSystemdNothingIsKept) {
  const FakeClock clock;
  const auto notifier = SystemdNotifier::Create({"", "", ""}, &clock);
  ASSERT_TRUE(notifier.ok());
  SystemdHolder holder({}, notifier->get());
  EXPECT_EQ(holder.Store("chunk", 0).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace qgemm
