// SPDX-License-Identifier: Apache-2.0
//
// Counts by connection, as recvmsg makes them; the choice of who must go.

#include "server/net/transit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/net/socket_calls.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kMib = int64_t{1} << 20;

// Reads up to `bytes` as gRPC does; -1 if there is nothing.
ssize_t Receive(int fd, size_t bytes) {
  std::string buffer(bytes, '\0');
  iovec part = {buffer.data(), buffer.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return recvmsg(fd, &message, MSG_DONTWAIT);
}

// A pair of sockets, of which the first is a connection.
class TransitTest : public ::testing::Test {
 protected:
  TransitTest() {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    connection_ = FileDescriptor(fds[0]);
    client_ = FileDescriptor(fds[1]);
    Begin();
  }
  ~TransitTest() override {
    transit()->End();
    SetTransitNotice(-1);
    TakeTurnsInReading(false);
  }

  ConnectionTransit* transit() { return TransitOf(connection_.get()); }

  // From here on this thread reads its connections in turn.
  static void TakeTurns() {
    TakeTurnsInReading(true);
    CHECK_EQ(poll(nullptr, 0, /*timeout=*/0), 0);
  }

  // Begins a connection that no thread has seen.
  void Begin(Wire wire = Wire::kPlain) {
    static uint64_t connections = 0;
    struct stat status;
    CHECK_EQ(fstat(connection_.get(), &status), 0);
    transit()->Begin({++connections, connections}, status.st_ino, wire);
  }

  // Sends a byte as gRPC does.
  ssize_t Send() {
    char byte = 'x';
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return sendmsg(connection_.get(), &message, MSG_NOSIGNAL);
  }

  // Sends and receives so many bytes, 64 KiB at a time. Returns those that
  // came before recvmsg said that there are no more.
  int64_t Bring(int64_t bytes) {
    const std::string block(64 << 10, 'x');
    int64_t brought = 0;
    while (brought < bytes) {
      CHECK_EQ(send(client_.get(), block.data(), block.size(), 0),
               static_cast<ssize_t>(block.size()));
      const ssize_t count = Receive(connection_.get(), block.size());
      if (count < 0) break;
      brought += count;
    }
    return brought;
  }

  FileDescriptor connection_;
  FileDescriptor client_;
};

TEST_F(TransitTest, CountsWhatCameAndIsInNoMessage) {
  Bring(kMib);
  EXPECT_EQ(transit()->bytes(), kMib);
  transit()->AddDelivered(kMib - 100);
  EXPECT_EQ(transit()->bytes(), 100);
  transit()->AddDelivered(1000);  // of a connection before, say
  EXPECT_EQ(transit()->bytes(), 0);
}

TEST_F(TransitTest, BeginsAnewWithTheNextConnection) {
  Bring(kMib);
  Begin();
  EXPECT_EQ(transit()->bytes(), 0);
}

TEST_F(TransitTest, NothingIsReadOfAConnectionThatIsCut) {
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  transit()->Cut();
  EXPECT_EQ(Receive(connection_.get(), 1), -1);
  EXPECT_EQ(errno, ECONNRESET);
  Begin();
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
}

TEST_F(TransitTest, MarkOfACutConnectionEndsWithItsSocket) {
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  transit()->Begin({1, 1}, /*inode=*/1);
  transit()->Cut();
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
  EXPECT_FALSE(transit()->is_open());
}

TEST_F(TransitTest, CountsNothingOfOtherSockets) {
  transit()->End();
  TakeTurns();
  EXPECT_EQ(Bring(4 * kMib), 4 * kMib);
  EXPECT_EQ(transit()->bytes(), 0);
}

TEST_F(TransitTest, IsNoticedWithEachMegabyte) {
  const FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  SetTransitNotice(event.get());
  uint64_t notices = 0;
  Bring(4 * kMib);
  EXPECT_EQ(read(event.get(), &notices, sizeof(notices)), 8);
  EXPECT_EQ(notices, 64u);
}

TEST_F(TransitTest, TurnEndsAndTheNextBeginsWithAPoll) {
  TakeTurns();
  EXPECT_LE(Bring(4 * kMib), kMib / 4);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(Receive(connection_.get(), 1), -1);
  pollfd polled = {connection_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 1);
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
}

TEST_F(TransitTest, EndsAreSeenOneARound) {
  TakeTurns();
  shutdown(client_.get(), SHUT_RDWR);
  pollfd polled = {connection_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 1);
  EXPECT_EQ(Receive(connection_.get(), 1), 0);
  EXPECT_EQ(Send(), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 1);
  EXPECT_EQ(Send(), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(TransitTest, ConnectionThatOpensManyCallsAtFirstIsCut) {
  TakeTurns();
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 257; ++i) bytes += std::string("\0\0\0\1\4\0\0\0\1", 9);
  ASSERT_EQ(send(client_.get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  const size_t last = bytes.size() - 1;
  ASSERT_EQ(Receive(connection_.get(), last), static_cast<ssize_t>(last));
  EXPECT_FALSE(transit()->is_cut());
  ASSERT_EQ(Receive(connection_.get(), 1), 1);
  EXPECT_TRUE(transit()->is_cut());
}

TEST_F(TransitTest, ConnectionThatResetsManyCallsIsLeftOutForAWhile) {
  TakeTurns();
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 3000; ++i) bytes += std::string("\0\0\0\3\0\0\0\0\1", 9);
  transit()->Follow(bytes, SteadyClock().Now());
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  pollfd polled = {connection_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/0), 0);
  EXPECT_EQ(polled.fd, connection_.get());
  EXPECT_EQ(Receive(connection_.get(), 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 0);  // until it goes on
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 1);
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
}

// Frames that would cut and pause the connection, were they ones.
TEST_F(TransitTest, NoFramesAreSeenUnderTls) {
  TakeTurns();
  Begin(Wire::kTls);
  std::string frames = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 1000; ++i) {
    frames += std::string("\0\0\0\1\4\0\0\0\1", 9);
    frames += std::string("\0\0\0\3\0\0\0\0\1", 9);
  }
  transit()->Follow(frames, SteadyClock().Now());
  EXPECT_FALSE(transit()->is_cut());
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  pollfd polled = {connection_.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, /*timeout=*/-1), 1);
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
  EXPECT_FALSE(transit()->is_cut());
}

TEST_F(TransitTest, WhatTlsAddsIsNotCounted) {
  TakeTurns();
  Begin(Wire::kTls);
  std::string bytes;
  for (int i = 0; i < 10; ++i) {
    bytes += std::string("\x17\3\3\0\x64", 5) + std::string(100, 'x');
  }
  ASSERT_EQ(send(client_.get(), bytes.data(), bytes.size(), 0), 1050);
  ASSERT_EQ(Receive(connection_.get(), bytes.size()), 1050);
  EXPECT_EQ(transit()->bytes(), 840);
}

TEST_F(TransitTest, ThreadMayLeaveReadingToOthers) {
  TakeTurns();
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  std::thread([this] {
    ReadNothingOnThisThread();
    TakeTurns();
    EXPECT_EQ(Receive(connection_.get(), 1), -1);
    EXPECT_EQ(errno, EAGAIN);
  }).join();
  EXPECT_EQ(Receive(connection_.get(), 1), 1);
}

TEST_F(TransitTest, OnlyThreadsThatPollRead) {
  TakeTurns();
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  std::thread([this] {
    EXPECT_EQ(Receive(connection_.get(), 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    TakeTurns();
    EXPECT_EQ(Receive(connection_.get(), 1), 1);
  }).join();
}

// Connections that hold so many KiB, a limit of 100 MiB.
class Holders {
 public:
  explicit Holders(const std::vector<int64_t>& kib, int64_t heap_mib_before = 0)
      : transits_(kib.size()), heap_mib_(heap_mib_before) {
    for (size_t i = 0; i < kib.size(); ++i) {
      transits_[i].Begin({i, i}, /*inode=*/0);
      transits_[i].AddReceived(kib[i] << 10);
      pointers_.push_back(&transits_[i]);
    }
  }
  // Counts messages of no bytes, whose headers are in what is held.
  void Deliver(int i, int64_t messages) {
    for (int64_t j = 0; j < messages; ++j) transits_[i].AddDelivered(0);
  }
  std::vector<size_t> Choose(int64_t heap_mib, bool ending = false) {
    heap_mib_ = heap_mib;
    return guard_.Choose(pointers_, ending);
  }
  bool is_pressed() const { return guard_.is_pressed(); }
  int64_t kib(int i) const { return transits_[i].bytes() >> 10; }

 private:
  std::vector<ConnectionTransit> transits_;
  std::vector<ConnectionTransit*> pointers_;
  int64_t heap_mib_;
  TransitGuard guard_{100 * kMib, [this] { return heap_mib_ * kMib; }};
};

TEST(TransitGuardTest, ChoosesTheHeaviestOnlyBeyondTheLimit) {
  EXPECT_THAT(Holders({}).Choose(1000), IsEmpty());
  EXPECT_THAT(Holders({300, 410, 100}).Choose(100), IsEmpty());
  EXPECT_THAT(Holders({300, 410, 100}).Choose(101), ElementsAre(1));
}

TEST(TransitGuardTest, HeapFromBeforeDoesNotCount) {
  EXPECT_THAT(Holders({300, 410}, 400).Choose(500), IsEmpty());
  EXPECT_THAT(Holders({300, 410}, 400).Choose(501), ElementsAre(1));
}

TEST(TransitGuardTest, ChoosesAsManyAsBringHalf) {
  EXPECT_THAT(Holders({300, 310, 320, 330}).Choose(101), ElementsAre(3, 2));
}

TEST(TransitGuardTest, ChoosesNobodyWhoBringsNextToNothing) {
  EXPECT_THAT(Holders({62, 1}).Choose(1000), IsEmpty());
  EXPECT_THAT(Holders(std::vector<int64_t>(200, 0)).Choose(1000), IsEmpty());
  EXPECT_THAT(Holders(std::vector<int64_t>(200, 1)).Choose(101), SizeIs(100));
}

TEST(TransitGuardTest, HeadersOfWhatCameWholeCountOnlyFarBeyondTheLimit) {
  Holders served({300, 200});
  served.Deliver(0, 1000);  // 250 KiB of headers
  EXPECT_THAT(served.Choose(150), ElementsAre(1));
  EXPECT_THAT(served.Choose(151), ElementsAre(0));
}

TEST(TransitGuardTest, WaitsForTheEndOfWhomItChoseUnlessTheHeapGrows) {
  Holders holders({300, 200});
  EXPECT_THAT(holders.Choose(110), ElementsAre(0));
  EXPECT_THAT(holders.Choose(110, /*ending=*/true), IsEmpty());
  EXPECT_THAT(holders.Choose(111, /*ending=*/true), ElementsAre(0));
  EXPECT_THAT(holders.Choose(105), ElementsAre(0));
}

TEST(TransitGuardTest, BeginsAnewWhenTheHeapIsSmall) {
  Holders drifted({600, 50});
  EXPECT_THAT(drifted.Choose(25), IsEmpty());
  EXPECT_TRUE(drifted.is_pressed());
  EXPECT_EQ(drifted.kib(0), 600);
  EXPECT_THAT(drifted.Choose(24), IsEmpty());
  EXPECT_FALSE(drifted.is_pressed());
  EXPECT_EQ(drifted.kib(0), 0);
  EXPECT_EQ(drifted.kib(1), 0);
}

}  // namespace
}  // namespace qgemm
