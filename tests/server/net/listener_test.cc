// SPDX-License-Identifier: Apache-2.0
//
// Sockets that listen, and the files of Unix ones.

#include "server/net/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

#include "tests/server/net/test_sockets.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat file = {};
  EXPECT_EQ(lstat(path.c_str(), &file), 0);
  return file.st_mode & 0777;
}

bool Exists(const std::string& path) {
  struct stat file;
  return lstat(path.c_str(), &file) == 0;
}

class ListenerTest : public ::testing::Test {
 protected:
  absl::StatusOr<Listener> Open(const SocketFileOptions& options = {}) {
    return Listener::Open(AddressOf("unix:" + path_), options);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("socket");
};

TEST_F(ListenerTest, TcpTellsItsPort) {
  for (const char* const text : {"127.0.0.1:0", "[::1]:0"}) {
    const Listener listener = MustListen(text);
    EXPECT_GT(listener.address().port, 0);
    MustConnect(listener.address());
  }
}

TEST_F(ListenerTest, AcceptedTcpSocketsSendAtOnce) {
  const Listener listener = MustListen("127.0.0.1:0");
  const FileDescriptor client = MustConnect(listener.address());
  const FileDescriptor accepted = MustAccept(listener);
  int on = 0;
  socklen_t length = sizeof(on);
  ASSERT_EQ(getsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &on, &length),
            0);
  EXPECT_NE(on, 0);
}

TEST_F(ListenerTest, ATakenPortIsRefused) {
  const Listener listener = MustListen("127.0.0.1:0");
  const auto second = Listener::Open(listener.address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(), HasSubstr("Address already in use"));
}

TEST_F(ListenerTest, OfTwoOnOnePathOneIsRefused) {
  const auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(),
              HasSubstr("another process listens there"));
  MustConnect(first->address());
}

TEST_F(ListenerTest, AProgramWithoutOurLockIsSeenToo) {
  const auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(unlink((path_ + ".lock").c_str()), 0);
  EXPECT_THAT(Open().status().message(),
              HasSubstr("another process listens there"));
  MustConnect(first->address());
}

TEST_F(ListenerTest, ASocketAtWhichNobodyListensIsReplaced) {
  {
    auto dead = Open();
    ASSERT_TRUE(dead.ok()) << dead.status();
    ASSERT_EQ(link(path_.c_str(), folder_.File("kept").c_str()), 0);
  }
  ASSERT_EQ(rename(folder_.File("kept").c_str(), path_.c_str()), 0);
  const auto next = Open();
  ASSERT_TRUE(next.ok()) << next.status();
  MustConnect(next->address());
}

TEST_F(ListenerTest, ItsFilesGoWithIt) {
  {
    const auto listener = Open();
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(Exists(path_));
    EXPECT_TRUE(Exists(path_ + ".lock"));
  }
  EXPECT_FALSE(Exists(path_));
  EXPECT_FALSE(Exists(path_ + ".lock"));
}

TEST_F(ListenerTest, AnothersSocketAtItsPathStays) {
  {
    const auto listener = Open();
    ASSERT_TRUE(listener.ok()) << listener.status();
    ASSERT_EQ(unlink(path_.c_str()), 0);
    std::ofstream(path_) << "another's";
  }
  EXPECT_TRUE(Exists(path_));
}

TEST_F(ListenerTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(Open().status().message(), HasSubstr("not a socket"));
  EXPECT_TRUE(Exists(path_));
}

TEST_F(ListenerTest, ALockThatIsALinkIsNotFollowed) {
  ASSERT_EQ(symlink("/nowhere", (path_ + ".lock").c_str()), 0);
  EXPECT_THAT(Open().status().message(), HasSubstr(path_ + ".lock"));
}

TEST_F(ListenerTest, AMissingFolderIsNamed) {
  const auto listener =
      Listener::Open(AddressOf("unix:" + folder_.File("missing/socket")), {});
  EXPECT_THAT(listener.status().message(), HasSubstr("missing/socket"));
  EXPECT_THAT(listener.status().message(),
              HasSubstr("No such file or directory"));
}

TEST_F(ListenerTest, TheSocketHasItsMode) {
  for (const mode_t mode : {0600, 0660, 0777}) {
    SocketFileOptions options;
    options.mode = mode;
    const auto listener = Open(options);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(path_), mode);
  }
}

TEST_F(ListenerTest, TheSocketHasItsGroup) {
  SocketFileOptions options;
  options.group = 4321;
  if (chown(folder_.path().c_str(), getuid(), *options.group) != 0) {
    GTEST_SKIP() << "only root gives files to any group";
  }
  const auto listener = Open(options);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat file = {};
  ASSERT_EQ(lstat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_gid, 4321);
}

TEST(ParseSocketMode, ReadsOctalNumbers) {
  EXPECT_EQ(*ParseSocketMode(""), std::nullopt);
  EXPECT_EQ(*ParseSocketMode("0660"), 0660);
  EXPECT_EQ(*ParseSocketMode("777"), 0777);
  EXPECT_EQ(*ParseSocketMode("0"), 0);
  for (const char* const text :
       {"8", "0o660", "1000", "-1", "rw", " 660", "77777777777777777777"}) {
    const auto mode = ParseSocketMode(text);
    EXPECT_EQ(mode.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(mode.status().message(), HasSubstr(text));
  }
}

TEST(ParseSocketGroup, ReadsNamesAndNumbers) {
  EXPECT_EQ(*ParseSocketGroup(""), std::nullopt);
  EXPECT_EQ(*ParseSocketGroup("17"), gid_t{17});
  EXPECT_EQ(*ParseSocketGroup("root"), gid_t{0});
  EXPECT_THAT(ParseSocketGroup("no-such-group").status().message(),
              HasSubstr("--socket_group = \"no-such-group\""));
}

}  // namespace
}  // namespace qgemm
