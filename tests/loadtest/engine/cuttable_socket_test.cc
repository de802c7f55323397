// SPDX-License-Identifier: Apache-2.0
//
// CuttableSocket against a listening socket of the test's own.

#include "loadtest/engine/cuttable_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// A descriptor that is closed in the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) : number_(std::exchange(other.number_, -1)) {}
  ~Descriptor() { Close(); }

  int get() const { return number_; }
  void Close() {
    if (number_ >= 0) close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

// What a server sees: a peer, and its bytes.
class Listener {
 public:
  // On a port of the kernel's choice.
  static Listener Tcp(int family) {
    Listener listener(socket(family, SOCK_STREAM, 0));
    sockaddr_storage address = {};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t bytes =
        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr =
          htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
    }
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    listener.usable_ = bind(listener.socket_.get(), any, bytes) == 0 &&
                       listen(listener.socket_.get(), 1) == 0 &&
                       getsockname(listener.socket_.get(), any, &bytes) == 0;
    // The port lies at one place in both families' addresses.
    listener.port_ = ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
    return listener;
  }

  static Listener Unix(const std::string& path) {
    Listener listener(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    listener.usable_ =
        bind(listener.socket_.get(), reinterpret_cast<sockaddr*>(&address),
             sizeof(address)) == 0 &&
        listen(listener.socket_.get(), 1) == 0;
    return listener;
  }

  Descriptor Accept() const {
    return Descriptor(accept(socket_.get(), nullptr, nullptr));
  }

  bool is_usable() const { return usable_; }
  int port() const { return port_; }
  void Close() { socket_.Close(); }

 private:
  explicit Listener(int socket) : socket_(socket) {}

  Descriptor socket_;
  bool usable_ = false;
  int port_ = 0;
};

std::string ReadAll(const Descriptor& from, size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t got = recv(from.get(), text.data(), bytes, MSG_WAITALL);
  text.resize(got < 0 ? 0 : got);
  return text;
}

// That a write of one end arrives at the other.
void ExpectConnected(const CuttableSocket& socket, const Descriptor& peer) {
  const absl::StatusOr<int> duplicate = socket.Duplicate();
  ASSERT_TRUE(duplicate.ok()) << duplicate.status();
  const Descriptor own(*duplicate);
  ASSERT_EQ(send(own.get(), "hello", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(ReadAll(peer, 5), "hello");
}

std::string NewFolder() {
  std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/XXXXXX");
  // A name in TEST_TMPDIR may be too long for a socket.
  if (path.size() > 80) path = "/tmp/cuttable-XXXXXX";
  return mkdtemp(path.data()) == nullptr ? "" : path;
}

TEST(CuttableSocketTest, ConnectsToAHostAndPort) {
  const Listener listener = Listener::Tcp(AF_INET);
  ASSERT_TRUE(listener.is_usable());
  const auto socket =
      CuttableSocket::Connect(absl::StrCat("127.0.0.1:", listener.port()));
  ASSERT_TRUE(socket.ok()) << socket.status();
  ExpectConnected(*socket, listener.Accept());
}

TEST(CuttableSocketTest, ConnectsToAnAddressInBrackets) {
  const Listener listener = Listener::Tcp(AF_INET6);
  if (!listener.is_usable()) GTEST_SKIP() << "no IPv6 here";
  const auto socket =
      CuttableSocket::Connect(absl::StrCat("[::1]:", listener.port()));
  ASSERT_TRUE(socket.ok()) << socket.status();
  ExpectConnected(*socket, listener.Accept());
}

TEST(CuttableSocketTest, ConnectsToAUnixSocket) {
  const std::string folder = NewFolder();
  const std::string path = absl::StrCat(folder, "/s");
  const Listener listener = Listener::Unix(path);
  ASSERT_TRUE(listener.is_usable()) << path;
  const auto socket = CuttableSocket::Connect(absl::StrCat("unix:", path));
  ASSERT_TRUE(socket.ok()) << socket.status();
  ExpectConnected(*socket, listener.Accept());
  unlink(path.c_str());
  rmdir(folder.c_str());
}

TEST(CuttableSocketTest, NobodyListeningIsUnavailable) {
  Listener listener = Listener::Tcp(AF_INET);
  ASSERT_TRUE(listener.is_usable());
  listener.Close();
  const std::string target = absl::StrCat("127.0.0.1:", listener.port());
  const absl::Status status = CuttableSocket::Connect(target).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(target));
}

TEST(CuttableSocketTest, TargetsThatNameNothingAreRefused) {
  for (const char* target :
       {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999999",
        "unix:", "unix:/nowhere/to/be/found", "[]:1", "127.0.0.1:port"}) {
    EXPECT_EQ(CuttableSocket::Connect(target).status().code(),
              absl::StatusCode::kUnavailable)
        << "'" << target << "'";
  }
}

TEST(CuttableSocketTest, APathTooLongForASocketIsRefusedByItsLength) {
  const absl::Status status =
      CuttableSocket::Connect("unix:/" + std::string(200, 'x')).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("201"));
}

// A client and what the server holds of it.
class CuttableSocketPairTest : public testing::Test {
 protected:
  void SetUp() override {
    const Listener listener = Listener::Tcp(AF_INET);
    ASSERT_TRUE(listener.is_usable());
    auto socket =
        CuttableSocket::Connect(absl::StrCat("127.0.0.1:", listener.port()));
    ASSERT_TRUE(socket.ok()) << socket.status();
    socket_.emplace(*std::move(socket));
    peer_.emplace(listener.Accept());
    ASSERT_GE(peer_->get(), 0);
  }

  std::optional<CuttableSocket> socket_;
  std::optional<Descriptor> peer_;
};

TEST_F(CuttableSocketPairTest, DuplicatesDoNotBlock) {
  const Descriptor own(*socket_->Duplicate());
  char byte;
  EXPECT_EQ(read(own.get(), &byte, 1), -1);
  EXPECT_TRUE(errno == EAGAIN || errno == EWOULDBLOCK) << std::strerror(errno);
}

TEST_F(CuttableSocketPairTest, DuplicatesAreClosedInAChildProcess) {
  const Descriptor own(*socket_->Duplicate());
  EXPECT_NE(fcntl(own.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(CuttableSocketPairTest, ADuplicateOutlivesTheSocket) {
  const Descriptor own(*socket_->Duplicate());
  socket_.reset();
  ASSERT_EQ(send(own.get(), "still", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(ReadAll(*peer_, 5), "still");
}

TEST_F(CuttableSocketPairTest, TheConnectionEndsWithItsLastOwner) {
  {
    const Descriptor own(*socket_->Duplicate());
    socket_.reset();
  }
  EXPECT_EQ(ReadAll(*peer_, 1), "");  // returns: the end of the stream
}

TEST_F(CuttableSocketPairTest, ACutEndsTheConnectionForTheDuplicatesToo) {
  const Descriptor own(*socket_->Duplicate());
  const Descriptor other(*socket_->Duplicate());
  socket_->Cut();
  char byte;
  EXPECT_EQ(read(own.get(), &byte, 1), 0);
  EXPECT_EQ(read(other.get(), &byte, 1), 0);
  EXPECT_EQ(send(own.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(ReadAll(*peer_, 1), "");
}

TEST_F(CuttableSocketPairTest, ASecondCutDoesNothing) {
  socket_->Cut();
  socket_->Cut();
  EXPECT_EQ(ReadAll(*peer_, 1), "");
}

TEST_F(CuttableSocketPairTest, AMoveLeavesTheConnectionOpen) {
  CuttableSocket moved = *std::move(socket_);
  socket_.reset();
  ExpectConnected(moved, *peer_);
}

}  // namespace
}  // namespace qgemm
