// SPDX-License-Identifier: Apache-2.0
//
// The loop that accepts: limits, exhausted descriptors, the probe. Connections
// are handed over to the test.

#include "server/net/accept_loop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/server/metrics/metrics_text.h"
#include "tests/server/net/test_sockets.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

class AcceptLoopTest : public ::testing::Test {
 protected:
  ~AcceptLoopTest() override {
    if (loop_ != nullptr) loop_->Stop();
  }

  void Make(const ConnectionLimits& limits) {
    std::vector<Listener> listeners;
    listeners.push_back(MustListen("127.0.0.1:0"));
    listeners.push_back(MustListen("unix:" + folder_.File("socket")));
    tcp_ = listeners[0].address();
    unix_ = listeners[1].address();
    loop_ = std::make_unique<AcceptLoop>(
        std::move(listeners), limits,
        AcceptLoop::Parts{&peers_, &metrics_, &clock_},
        [this](const Listener&, int fd) { Take(fd); });
  }
  void Start(const ConnectionLimits& limits) {
    Make(limits);
    loop_->Start();
  }

  // Waits for the next connection that is handed over.
  FileDescriptor Next() {
    MutexLock lock(&mutex_);
    while (taken_.empty()) handed_over_.Wait(&mutex_);
    FileDescriptor fd = std::move(taken_.front());
    taken_.erase(taken_.begin());
    return fd;
  }
  size_t HandedOver() {
    MutexLock lock(&mutex_);
    return total_;
  }
  double Refused(const std::string& reason) {
    return MetricValue(metrics_, "qgemm_connections_refused_total{reason=\"" +
                                     reason + "\"}")
        .value_or(0);
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  PeerTable peers_;
  ServerMetrics metrics_;
  ListenAddress tcp_;
  ListenAddress unix_;
  std::unique_ptr<AcceptLoop> loop_;

  void Take(int fd) {
    MutexLock lock(&mutex_);
    taken_.emplace_back(fd);
    ++total_;
    handed_over_.Signal();
  }

 private:
  Mutex mutex_;
  CondVar handed_over_;
  std::vector<FileDescriptor> taken_ ABSL_GUARDED_BY(mutex_);
  size_t total_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(AcceptLoopTest, HandsOverConnectionsOfEveryListener) {
  Start({10, 10});
  for (const ListenAddress& address : {tcp_, unix_}) {
    const FileDescriptor client = MustConnect(address);
    const FileDescriptor accepted = Next();
    ASSERT_EQ(send(client.get(), "x", 1, 0), 1);
    char byte = 0;
    pollfd waited = {accepted.get(), POLLIN, 0};
    ASSERT_EQ(poll(&waited, 1, -1), 1);
    EXPECT_EQ(recv(accepted.get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'x');
  }
}

TEST_F(AcceptLoopTest, TheTableKnowsEachConnectionByANumber) {
  Start({10, 10});
  const FileDescriptor over_tcp = MustConnect(tcp_);
  const FileDescriptor first = Next();
  const FileDescriptor over_unix = MustConnect(unix_);
  const FileDescriptor second = Next();
  const std::string user = "uid " + std::to_string(getuid());
  EXPECT_EQ(peers_.Find("unix:connection-1")->identity, user);
  EXPECT_STREQ(peers_.Find("unix:connection-1")->transport, "tcp");
  EXPECT_EQ(peers_.Find("unix:connection-2")->identity, user);
}

TEST_F(AcceptLoopTest, CountsConnectionsOfATlsListenerApartButBoundsThemAlike) {
  std::vector<Listener> listeners;
  listeners.push_back(MustListen("tls:0.0.0.0:0"));
  const ListenAddress tls = listeners[0].address();
  ListenAddress::Kind handed_over_by = ListenAddress::Kind::kUnix;
  loop_ = std::make_unique<AcceptLoop>(
      std::move(listeners), ConnectionLimits{10, 1},
      AcceptLoop::Parts{&peers_, &metrics_, &clock_},
      [&](const Listener& listener, int fd) {
        handed_over_by = listener.address().kind;
        Take(fd);
      });
  loop_->Start();
  const FileDescriptor client = MustConnect(tls);
  const FileDescriptor accepted = Next();
  EXPECT_EQ(handed_over_by, ListenAddress::Kind::kTls);
  EXPECT_STREQ(peers_.Find("unix:connection-1")->transport, "tls");
  // No byte of a handshake has come.
  WaitForEnd(MustConnect(tls));
  EXPECT_EQ(Refused("peer"), 1);
  EXPECT_THAT(MetricValue(metrics_, "qgemm_connections{transport=\"tls\"}"),
              Optional(1));
}

TEST_F(AcceptLoopTest, ClosesWhatIsBeyondTheBoundOfAClient) {
  Start({10, 2});
  const FileDescriptor first = MustConnect(tcp_);
  const FileDescriptor second = MustConnect(unix_);  // the same user's
  FileDescriptor first_accepted = Next();
  const FileDescriptor second_accepted = Next();
  WaitForEnd(MustConnect(tcp_));
  EXPECT_EQ(Refused("peer"), 1);
  EXPECT_EQ(HandedOver(), 2);
  first_accepted.Reset();
  clock_.Advance(absl::Seconds(1));
  const FileDescriptor third = MustConnect(tcp_);
  Next();
}

TEST_F(AcceptLoopTest, ClosesWhatIsBeyondTheTotal) {
  Start({1, 2});
  const FileDescriptor first = MustConnect(tcp_);
  FileDescriptor accepted = Next();
  WaitForEnd(MustConnect(unix_));
  EXPECT_EQ(Refused("total"), 1);
  accepted.Reset();
  clock_.Advance(absl::Seconds(1));
  const FileDescriptor second = MustConnect(unix_);
  Next();
}

TEST_F(AcceptLoopTest, TheGaugeCountsConnections) {
  Start({2, 2});
  const FileDescriptor client = MustConnect(unix_);
  FileDescriptor accepted = Next();
  // The count changes after the connection was handed over; the next one comes
  // later than that.
  const FileDescriptor second = MustConnect(tcp_);
  const FileDescriptor second_accepted = Next();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_connections{transport=\"unix\"}"),
              Optional(1));
  accepted.Reset();
  clock_.Advance(absl::Seconds(1));
  const FileDescriptor third = MustConnect(tcp_);  // at the bound: it looks
  Next();
  EXPECT_THAT(MetricValue(metrics_, "qgemm_connections{transport=\"unix\"}"),
              Optional(0));
}

// Leaves the process without descriptors for as long as it lives.
class DescriptorFamine {
 public:
  DescriptorFamine() {
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = 256;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (true) {
      FileDescriptor fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) break;
      taken_.push_back(std::move(fd));
    }
    CHECK_EQ(errno, EMFILE);
  }
  ~DescriptorFamine() {
    taken_.clear();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_ = {};
  std::vector<FileDescriptor> taken_;
};

TEST_F(AcceptLoopTest, ServesAgainAfterAFamineOfDescriptors) {
  Start({100, 100});
  std::vector<FileDescriptor> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(NewClient(i % 2 == 0 ? tcp_ : unix_));
  }
  {
    const DescriptorFamine famine;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(Connect(clients[i], i % 2 == 0 ? tcp_ : unix_));
    }
    // None waits for better times: each hears that it is refused.
    for (const FileDescriptor& client : clients) WaitForEnd(client);
  }
  EXPECT_GE(Refused("fd"), 20);
  for (const ListenAddress& address : {tcp_, unix_}) {
    const FileDescriptor client = MustConnect(address);
    Next();
  }
}

TEST_F(AcceptLoopTest, TheProbeArrivesAndIsNotHandedOver) {
  Start({1, 1});
  ASSERT_TRUE(loop_->ProbeListeners().ok());
  const FileDescriptor client = MustConnect(tcp_);
  const FileDescriptor accepted = Next();
  const FileDescriptor refused = MustConnect(unix_);
  WaitForEnd(refused);
  // Connections are accepted in order: both probes have arrived.
  clock_.Advance(absl::Milliseconds(2100));
  const absl::Status status = loop_->ProbeListeners();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(HandedOver(), 1);
}

TEST_F(AcceptLoopTest, TheProbeTellsOfAListenerThatDoesNotAccept) {
  Make({1, 1});  // and does not start
  EXPECT_TRUE(loop_->ProbeListeners().ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(loop_->ProbeListeners().ok());
  clock_.Advance(absl::Milliseconds(1100));
  const absl::Status status = loop_->ProbeListeners();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(tcp_.ToString()));
}

TEST_F(AcceptLoopTest, TheProbeTellsOfASocketThatSomebodyRemoved) {
  Start({1, 1});
  ASSERT_EQ(unlink(unix_.path.c_str()), 0);
  EXPECT_TRUE(loop_->ProbeListeners().ok());
  const FileDescriptor client = MustConnect(tcp_);  // after TCP's probe
  Next();
  clock_.Advance(absl::Milliseconds(2100));
  EXPECT_THAT(std::string(loop_->ProbeListeners().message()),
              HasSubstr("No such file"));
}

TEST_F(AcceptLoopTest, NobodyCanConnectOnceItHasStopped) {
  Start({1, 1});
  loop_->Stop();
  EXPECT_FALSE(Connect(NewClient(tcp_), tcp_));
  EXPECT_FALSE(Connect(NewClient(unix_), unix_));
  EXPECT_TRUE(loop_->ProbeListeners().ok());
}

}  // namespace
}  // namespace qgemm
