// SPDX-License-Identifier: Apache-2.0
//
// Bounds of connections, and the notice of their ends.

#include "server/net/connection_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "server/net/descriptor_limit.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using Admission = ConnectionTable::Admission;

FileDescriptor NewSocket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(fd.valid());
  return fd;
}

class ConnectionTableTest : public ::testing::Test {
 protected:
  Admission Admit(const std::string& identity) {
    now_ += absl::Seconds(1);
    return AdmitAtOnce(identity);
  }
  // So shortly after the last time that the table does not look again.
  Admission AdmitAtOnce(const std::string& identity) {
    return table_.Admit(identity, now_, [this](const Connection& connection) {
      ended_.push_back(connection.name);
    });
  }

  void Add(const FileDescriptor& fd, const std::string& identity,
           const std::string& name) {
    auto peer = std::make_shared<Peer>();
    peer->identity = identity;
    table_.Add({fd.get(), InodeOf(fd.get()), name, std::move(peer)});
  }

  ConnectionTable table_{ConnectionLimits{3, 2}};
  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::string> ended_;
};

TEST_F(ConnectionTableTest, BoundsTheTotal) {
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 3; ++i) {
    const std::string identity = std::to_string(i);
    EXPECT_EQ(Admit(identity), Admission::kAdmitted);
    sockets.push_back(NewSocket());
    Add(sockets.back(), identity, identity);
  }
  EXPECT_EQ(Admit("another"), Admission::kTotalReached);
}

TEST_F(ConnectionTableTest, BoundsEachIdentity) {
  const FileDescriptor first = NewSocket();
  const FileDescriptor second = NewSocket();
  Add(first, "uid 1", "first");
  Add(second, "uid 1", "second");
  EXPECT_EQ(Admit("uid 1"), Admission::kPeerReached);
  EXPECT_EQ(Admit("uid 2"), Admission::kAdmitted);
}

TEST(ConnectionTableShareTest, LeavesRoomForOneIdentityMore) {
  ConnectionTable table({64, 32});
  const FileDescriptor socket = NewSocket();
  std::vector<int> taken;
  for (const std::string identity : {"uid 1", "uid 2", "uid 3", "uid 4"}) {
    int count = 0;
    const auto admit = [&] {
      return table.Admit(identity, absl::InfinitePast(),
                         [](const Connection&) {}) == Admission::kAdmitted;
    };
    for (; admit(); ++count) {
      auto peer = std::make_shared<Peer>();
      peer->identity = identity;
      table.Add({socket.get(), InodeOf(socket.get()), "", std::move(peer)});
    }
    taken.push_back(count);
  }
  EXPECT_THAT(taken, ElementsAre(32, 16, 8, 4));
}

TEST_F(ConnectionTableTest, AnEndedConnectionMakesRoom) {
  FileDescriptor first = NewSocket();
  const FileDescriptor second = NewSocket();
  Add(first, "uid 1", "first");
  Add(second, "uid 1", "second");
  EXPECT_EQ(Admit("uid 1"), Admission::kPeerReached);
  first.Reset();
  EXPECT_EQ(AdmitAtOnce("uid 1"), Admission::kPeerReached);
  EXPECT_EQ(Admit("uid 1"), Admission::kAdmitted);
  EXPECT_THAT(ended_, ElementsAre("first"));
  EXPECT_EQ(table_.size(), 1);
}

TEST_F(ConnectionTableTest, ANumberThatIsAnothersFileNowIsAnEndedConnection) {
  FileDescriptor socket = NewSocket();
  const int number = socket.get();
  Add(socket, "uid 1", "ended");
  const FileDescriptor other = NewSocket();
  ASSERT_EQ(dup2(other.get(), number), number);
  table_.RemoveEnded(now_, [this](const Connection& connection) {
    ended_.push_back(connection.name);
  });
  EXPECT_THAT(ended_, ElementsAre("ended"));
}

TEST_F(ConnectionTableTest, OpenConnectionsStay) {
  const FileDescriptor first = NewSocket();
  Add(first, "uid 1", "first");
  table_.RemoveEnded(now_, [](const Connection&) { FAIL(); });
  EXPECT_EQ(table_.size(), 1);
}

TEST(InodeOf, IsNoneOfAClosedDescriptor) {
  FileDescriptor fd = NewSocket();
  const int number = fd.get();
  EXPECT_NE(InodeOf(number), 0);
  fd.Reset();
  EXPECT_EQ(InodeOf(number), 0);
}

TEST(FitTo, LeavesDescriptorsForAllElse) {
  const ConnectionLimits asked{1000, 500};
  EXPECT_EQ(FitTo(1 << 20, asked).max_connections, 1000);
  EXPECT_EQ(FitTo(1 << 20, asked).max_peer_connections, 500);
  EXPECT_EQ(FitTo(1024, asked).max_connections, 768);
  EXPECT_EQ(FitTo(1024, asked).max_peer_connections, 384);
  EXPECT_EQ(FitTo(64, asked).max_connections, 32);
  EXPECT_EQ(FitTo(64, asked).max_peer_connections, 16);
}

}  // namespace
}  // namespace qgemm
