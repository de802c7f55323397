// SPDX-License-Identifier: Apache-2.0
//
// A holder and its clients, over a socket.

#include "server/keep/holder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "server/keep/holder_packets.h"
#include "server/keep/holders.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A holder with a thread of its own.
class RunningHolder {
 public:
  RunningHolder(const std::string& path, absl::Duration hold) {
    auto holder = Holder::Listen(path, hold, &clock_);
    CHECK(holder.ok()) << holder.status();
    thread_ = std::thread([this, holder = *std::move(holder)]() mutable {
      while (!stopping_) holder.ServeOnce(absl::Milliseconds(5));
    });
  }
  ~RunningHolder() {
    stopping_ = true;
    thread_.join();
  }

 private:
  const SteadyClock clock_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class HolderTest : public ::testing::Test {
 protected:
  void Start(absl::Duration hold = absl::Minutes(1)) {
    holder_ = std::make_unique<RunningHolder>(path_, hold);
  }

  static std::vector<std::string> Names(HolderClient* client) {
    const auto held = client->Claim();
    CHECK(held.ok()) << held.status();
    std::vector<std::string> names;
    for (const HeldDescriptor& each : *held) names.push_back(each.name);
    return names;
  }

  FileDescriptor Connect() {
    FileDescriptor connection(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    CHECK_EQ(
        connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)),
        0);
    return connection;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("holder");
  std::unique_ptr<RunningHolder> holder_;
};

TEST_F(HolderTest, WhatOneServerStoresTheNextOneHas) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  {
    HolderClient client(path_);
    EXPECT_THAT(Names(&client), IsEmpty());
    EXPECT_TRUE(client.Store("pipe", writer.get()).ok());
    EXPECT_TRUE(client.Store("other", writer.get()).ok());
    EXPECT_TRUE(client.Drop("other").ok());
  }
  writer.Reset();
  HolderClient heir(path_);
  const auto held = heir.Claim();
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->size(), 1);
  EXPECT_EQ((*held)[0].name, "pipe");
  EXPECT_EQ(write((*held)[0].descriptor.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 1);
}

TEST_F(HolderTest, ThousandsFit) {
  Start();
  constexpr int kMany = 500;
  {
    HolderClient client(path_);
    EXPECT_THAT(Names(&client), IsEmpty());
    for (int i = 0; i < kMany; ++i) {
      EXPECT_TRUE(client.Store(absl::StrCat("chunk", i), 0).ok());
    }
  }
  HolderClient heir(path_);
  EXPECT_EQ(Names(&heir).size(), kMany);
}

TEST_F(HolderTest, ItsSocketIsItsUsersAlone) {
  Start();
  struct stat status = {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
}

TEST_F(HolderTest, AnotherOneDoesNotListenWhereOneDoes) {
  Start();
  const SteadyClock clock;
  EXPECT_EQ(Holder::Listen(path_, absl::Minutes(1), &clock).status().code(),
            absl::StatusCode::kFailedPrecondition);
  holder_.reset();
  EXPECT_TRUE(Holder::Listen(path_, absl::Minutes(1), &clock).ok());
  EXPECT_FALSE(Holder::Listen("relative", absl::Minutes(1), &clock).ok());
}

TEST_F(HolderTest, WhoSendsSomethingElseIsCutOffAndHarmsNobody) {
  Start();
  HolderClient client(path_);
  EXPECT_THAT(Names(&client), IsEmpty());
  EXPECT_TRUE(client.Store("kept", 0).ok());
  for (const std::string& packet :
       {std::string("STORE a"), std::string("DROP kept"), std::string("\0", 1),
        std::string("NONSENSE"), std::string(100000, 'x')}) {
    const FileDescriptor other = Connect();
    send(other.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
    EXPECT_FALSE(ReceiveHolderPacket(other.get()).ok());
  }
  const FileDescriptor second = Connect();
  ASSERT_TRUE(SendHolderPacket(second.get(), kClaim).ok());
  const auto answer = ReceiveHolderPacket(second.get());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->word, kBusy);
  EXPECT_TRUE(client.Store("more", 0).ok());
}

TEST_F(HolderTest, AServerThatComesWhileOneEndsWaits) {
  Start();
  auto elder = std::make_unique<HolderClient>(path_);
  EXPECT_THAT(Names(elder.get()), IsEmpty());
  EXPECT_TRUE(elder->Store("kept", 0).ok());
  std::thread end([&elder] { elder.reset(); });
  HolderClient heir(path_);
  EXPECT_THAT(Names(&heir), ElementsAre("kept"));
  end.join();
}

TEST_F(HolderTest, WithoutAHolderTheClientSaysSo) {
  HolderClient client(path_);
  const auto held = client.Claim();
  EXPECT_EQ(held.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(held.status().message(), HasSubstr(path_));
}

}  // namespace
}  // namespace qgemm
