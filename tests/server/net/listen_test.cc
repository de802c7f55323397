// SPDX-License-Identifier: Apache-2.0
//
// Syntax of addresses, the loopback rule, and the port file.

#include "server/net/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(ParseListenAddress, ReadsWhatItPrints) {
  for (const char* const text :
       {"127.0.0.1:50051", "localhost:0", "[::1]:65535", "unix:/run/socket",
        "tls:0.0.0.0:443", "tls:[::]:443"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(ParseListenAddress, KnowsThePartsOfAnAddress) {
  const auto tcp = ParseListenAddress("[::1]:80");
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(tcp->kind, ListenAddress::Kind::kTcp);
  EXPECT_EQ(tcp->host, "::1");
  EXPECT_EQ(tcp->port, 80);
  const auto tls = ParseListenAddress("tls:gpu-7.corp:443");
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(tls->kind, ListenAddress::Kind::kTls);
  EXPECT_EQ(tls->host, "gpu-7.corp");
  const auto unix_socket = ParseListenAddress("unix:a:b");
  ASSERT_TRUE(unix_socket.ok()) << unix_socket.status();
  EXPECT_EQ(unix_socket->kind, ListenAddress::Kind::kUnix);
  EXPECT_EQ(unix_socket->path, "a:b");
}

TEST(ParseListenAddress, RefusesWhatIsMalformed) {
  for (const char* const text :
       {"", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:http", "127.0.0.1: 1", "::1:50051",
        "[::1:50051", "http://127.0.0.1:1", "unix:", "tls:", "tls::1",
        "tls:host", "tls:tls:host:1"}) {
    const auto address = ParseListenAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(address.status().message(),
                HasSubstr("\"" + std::string(text) + "\""));
  }
}

TEST(ParseListenAddress, BoundsThePathOfAUnixSocket) {
  EXPECT_TRUE(ParseListenAddress("unix:" + std::string(107, 'p')).ok());
  const auto address = ParseListenAddress("unix:" + std::string(108, 'p'));
  EXPECT_THAT(address.status().message(), HasSubstr("107"));
}

absl::StatusOr<ListenAddress> ResolveText(const std::string& text) {
  const auto address = ParseListenAddress(text);
  if (!address.ok()) return address.status();
  return Resolve(*address);
}

TEST(Resolve, TakesAnyAddressWithTls) {
  for (const char* const text :
       {"tls:0.0.0.0:7", "tls:[::]:7", "tls:10.0.0.1:7", "tls:127.0.0.1:7"}) {
    const auto address = ResolveText(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(Resolve, TakesLoopbackAddresses) {
  EXPECT_EQ(ResolveText("127.0.0.1:7")->ToString(), "127.0.0.1:7");
  EXPECT_EQ(ResolveText("127.200.3.4:7")->ToString(), "127.200.3.4:7");
  EXPECT_EQ(ResolveText("[::1]:7")->ToString(), "[::1]:7");
  EXPECT_EQ(ResolveText("unix:/socket")->ToString(), "unix:/socket");
}

TEST(Resolve, RefusesAddressesThatOtherHostsReach) {
  for (const char* const text :
       {"0.0.0.0:7", "[::]:7", "10.0.0.1:7", "128.0.0.1:7", "126.0.0.1:7",
        "[2001:db8::1]:7", "[::ffff:127.0.0.1]:7"}) {
    const auto address = ResolveText(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kFailedPrecondition)
        << text;
    EXPECT_THAT(address.status().message(),
                HasSubstr("use tls:" + std::string(text)));
    EXPECT_THAT(address.status().message(), HasSubstr("--access_table"));
  }
}

TEST(Resolve, RefusesNamesThatDoNotResolve) {
  const auto address = ResolveText("no.such.host.invalid:7");
  EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(address.status().message(), HasSubstr("no.such.host.invalid"));
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WritePortFile, HoldsOnePortALine) {
  const std::string path = ::testing::TempDir() + "/ports";
  ASSERT_TRUE(WritePortFile(path, {1, 65535}).ok());
  EXPECT_EQ(Read(path), "1\n65535\n");
}

TEST(WritePortFile, ReplacesAnOlderFile) {
  const std::string path = ::testing::TempDir() + "/replaced";
  ASSERT_TRUE(WritePortFile(path, {1, 2, 3}).ok());
  ASSERT_TRUE(WritePortFile(path, {4}).ok());
  EXPECT_EQ(Read(path), "4\n");
}

TEST(WritePortFile, DoesNotFollowALinkInItsWay) {
  const std::string path = ::testing::TempDir() + "/linked";
  const std::string target = ::testing::TempDir() + "/target";
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream(target) << "precious";
  ASSERT_EQ(symlink(target.c_str(), temporary.c_str()), 0);
  ASSERT_TRUE(WritePortFile(path, {5}).ok());
  EXPECT_EQ(Read(path), "5\n");
  EXPECT_EQ(Read(target), "precious");
}

TEST(WritePortFile, NamesAFileThatItCannotWrite) {
  const std::string path = ::testing::TempDir() + "/no/such/folder/ports";
  const absl::Status status = WritePortFile(path, {1});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(path));
}

}  // namespace
}  // namespace qgemm
