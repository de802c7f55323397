// SPDX-License-Identifier: Apache-2.0
//
// Identities of clients by the kernel's word, and the name that gRPC is given.

#include "server/net/peer_identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/net/test_sockets.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr uid_t kOtherUser = 12345;

// False without root's rights, and where only some users exist.
bool CanBeAnotherUser() {
  const pid_t child = fork();
  if (child == 0) {
    _exit(setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

// Another user's process, which stays connected until this object goes.
class OtherUsersClient {
 public:
  explicit OtherUsersClient(const ListenAddress& address) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    child_ = fork();
    CHECK_GE(child_, 0);
    if (child_ == 0) {
      close(ends[1]);
      if (setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) _exit(1);
      const FileDescriptor client = MustConnect(address);
      char byte;
      _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    release_.Reset(ends[1]);
  }
  ~OtherUsersClient() {
    release_.Reset();
    int status = 0;
    waitpid(child_, &status, 0);
  }

 private:
  pid_t child_ = 0;
  FileDescriptor release_;
};

class PeerIdentityTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Unix addresses are below the test's folder.
  Listener NewListener(const SocketFileOptions& options = {}) const {
    auto listener = Listener::Open(
        AddressOf(GetParam() == "unix:" ? "unix:" + folder_.File("socket")
                                        : GetParam()),
        options);
    CHECK_OK(listener.status());
    return *std::move(listener);
  }

  Peer PeerOfNext(const Listener& listener) {
    SocketAddress remote;
    const FileDescriptor accepted = MustAccept(listener, &remote);
    return PeerOfSocket(accepted.get(), remote, &owners_);
  }

  const TemporaryFolder folder_;
  SocketOwners owners_;
};

TEST_P(PeerIdentityTest, IsTheUserWhoConnects) {
  const Listener listener = NewListener();
  const FileDescriptor client = MustConnect(listener.address());
  const Peer peer = PeerOfNext(listener);
  EXPECT_EQ(peer.identity, absl::StrCat("uid ", getuid()));
  EXPECT_EQ(peer.user, getuid());
}

TEST_P(PeerIdentityTest, IsAnotherForAnotherUser) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can be another user";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  SocketFileOptions options;
  options.mode = 0777;
  const Listener listener = NewListener(options);
  const OtherUsersClient client(listener.address());
  const Peer peer = PeerOfNext(listener);
  EXPECT_EQ(peer.identity, absl::StrCat("uid ", kOtherUser));
  EXPECT_EQ(peer.user, uid_t{kOtherUser});
}

INSTANTIATE_TEST_SUITE_P(Listeners, PeerIdentityTest,
                         ::testing::Values("127.0.0.1:0", "[::1]:0", "unix:"));

TEST(PeerIdentity, AClientThatHasGoneIsNotRoot) {
  const Listener listener = MustListen("127.0.0.1:0");
  MustConnect(listener.address()).Reset();
  SocketAddress remote;
  const FileDescriptor accepted = MustAccept(listener, &remote);
  SocketOwners owners;
  const Peer peer = PeerOfSocket(accepted.get(), remote, &owners);
  EXPECT_EQ(peer.identity, "ip 127.0.0.1");
  EXPECT_FALSE(peer.user.has_value());
}

TEST(PeerIdentity, ASocketThatIsNotThereHasNoOwner) {
  SocketOwners owners;
  const auto local = ToSocketAddress(AddressOf("127.0.0.1:1"));
  const auto remote = ToSocketAddress(AddressOf("127.0.0.1:2"));
  EXPECT_EQ(owners.Find(*local, *remote), std::nullopt);
}

TEST(IdentityOfAddress, IsTheSameForBothFormsOfAnIpv4Address) {
  EXPECT_EQ(
      IdentityOfAddress(*ToSocketAddress(AddressOf("[::ffff:10.0.0.7]:80"))),
      "ip 10.0.0.7");
}

TEST(IdentityOfAddress, IsTheNetworkOfIpv6) {
  EXPECT_EQ(IdentityOfAddress(*ToSocketAddress(AddressOf("10.0.0.7:80"))),
            "ip 10.0.0.7");
  EXPECT_EQ(IdentityOfAddress(
                *ToSocketAddress(AddressOf("[2001:db8:1:2:3:4:5:6]:80"))),
            "ip 2001:db8:1:2::/64");
}

std::string PeerPathOf(int fd) {
  sockaddr_un name = {};
  socklen_t length = sizeof(name);
  EXPECT_EQ(getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length), 0);
  EXPECT_EQ(name.sun_family, AF_UNIX);
  return name.sun_path;
}

TEST(ScopedPeerName, NamesOneSocketForATime) {
  int first[2], second[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, first), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, second), 0);
  EXPECT_EQ(PeerPathOf(first[0]), "");
  {
    const ScopedPeerName name(first[0], "connection-7");
    EXPECT_EQ(PeerPathOf(second[0]), "");
    EXPECT_FALSE(name.asked());
    EXPECT_EQ(PeerPathOf(first[0]), "connection-7");
    EXPECT_TRUE(name.asked());
  }
  EXPECT_EQ(PeerPathOf(first[0]), "");
  for (const int fd : {first[0], first[1], second[0], second[1]}) close(fd);
}

TEST(ScopedPeerName, LeavesErrorsToTheKernel) {
  sockaddr_un name = {};
  socklen_t length = sizeof(name);
  EXPECT_EQ(getpeername(-1, reinterpret_cast<sockaddr*>(&name), &length), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace qgemm
