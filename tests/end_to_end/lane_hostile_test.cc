// SPDX-License-Identifier: Apache-2.0
//
// Clients of lanes that do whatever they can, beside one that checks each of
// its answers. QGEMM_LANE_STEPS sets the steps of each attack.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/lane_fixture.h"
#include "tests/support/child_process.h"

namespace qgemm {
namespace {

constexpr int64_t kN = 64;
constexpr int64_t kK = 64;
constexpr uint64_t kSmallLane = 65536;
constexpr uint64_t kMost = ~uint64_t{0};

int Steps() {
  const char* const steps = getenv("QGEMM_LANE_STEPS");
  return steps == nullptr ? 3000 : std::atoi(steps);
}

// Names of the files, sorted; that of the list itself among them.
std::vector<std::string> OpenFiles() {
  std::vector<std::string> files;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    files.push_back(std::filesystem::read_symlink(file, gone).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

template <typename T>
T OneOf(std::initializer_list<T> values, RandomGenerator* random) {
  return *(values.begin() + (*random)() % values.size());
}

class HostileLaneTest : public ::testing::Test {
 protected:
  HostileLaneTest() {
    LoadLayer(client_, kN, kK, &random_);
    request_ = MakeGemm("layer", 2, kK, &random_);
    expected_ = client_.Gemm(request_).response.c();
    honest_ = std::thread([this] { CallHonestly(); });
    while (answers_ == 0) std::this_thread::yield();
  }

  // Every attack leaves the server as it was.
  ~HostileLaneTest() override {
    const int64_t answers = answers_;
    while (answers_ < answers + 100) std::this_thread::yield();
    stop_ = true;
    honest_.join();
    const int port = server_.server().metrics_port();
    while (ScrapeMetric(port, "qgemm_lane_bytes") > 0) {
    }
    EXPECT_EQ(ScrapeMetric(port, "qgemm_connections{transport=\"lane\"}"), 0);
    EXPECT_EQ(ScrapeMetric(port, "qgemm_queue_requests"), 0);
  }

  static ServerOptions Options(const TemporaryFolder& folder) {
    ServerOptions options = LaneServerOptions(folder);
    options.metrics_listen = "127.0.0.1:0";
    options.backend.cpu.threads = 2;
    // Its own wake-ups are attacked too.
    options.lane_spin = absl::Microseconds(5);
    return options;
  }

  std::string path() const { return folder_.File("lane"); }

  void CallHonestly() {
    RawLane lane(path());
    ASSERT_TRUE(lane.Hello(kLaneBytes).ok());
    lane::RequestEntry entry = ToEntry(
        request_, kN,
        lane.Open(lane::HandleKind::kWeights, "layer").message.handle, lane);
    while (!stop_) {
      ++entry.cookie;
      ASSERT_TRUE(lane.Call(entry));
      ASSERT_EQ(lane.completion(0).code, 0u) << lane.MessageOf(0);
      ASSERT_EQ(ResultOf(entry, lane), expected_);
      ++answers_;
    }
  }

  // A lane with the layer open, once there is room: the server may still see to
  // the end of the one before.
  std::unique_ptr<RawLane> NewLane(uint32_t* handle) const {
    while (true) {
      auto lane = std::make_unique<RawLane>(path());
      if (!lane->Hello(kSmallLane, 8).ok()) continue;
      *handle = lane->Open(lane::HandleKind::kWeights, "layer").message.handle;
      return lane;
    }
  }

  // A request that is legal, or nearly.
  lane::RequestEntry RandomEntry(uint32_t handle) {
    lane::RequestEntry entry;
    const auto random = [this] { return random_(); };
    const auto rarely = [&] { return random() % 16 == 0; };
    entry.handle = handle;
    entry.m = random() % 8 + 1;
    entry.slot = random() % 8;
    entry.cookie = static_cast<uint32_t>(random());
    entry.a_bytes = entry.m * kK * 2;
    entry.c_bytes = entry.m * kN * 2;
    entry.a_offset = random() % 512 * 64;
    entry.c_offset = 32768 + random() % 256 * 64;
    entry.a_type = 2;
    if (rarely()) entry.handle = static_cast<uint32_t>(random());
    if (rarely()) entry.m = OneOf<uint32_t>({0, 9, 1u << 31, ~0u}, &random_);
    if (rarely() && rarely()) {
      entry.slot = OneOf<uint32_t>({8, 9, 1u << 31, ~0u}, &random_);
    }
    for (uint64_t* const field :
         {&entry.a_offset, &entry.a_bytes, &entry.c_offset, &entry.c_bytes}) {
      if (!rarely()) continue;
      *field = OneOf<uint64_t>(
          {0, 1, 63, 64, kSmallLane - 64, kSmallLane, kSmallLane + 64,
           kMost - 63, kMost, uint64_t{1} << 63, random()},
          &random_);
    }
    if (rarely())
      entry.timeout_ns = OneOf<uint64_t>({1, 1000, kMost}, &random_);
    for (uint8_t* const field :
         {&entry.a_type, &entry.c_type, &entry.mode, &entry.rounding,
          &entry.priority, &entry.a_region, &entry.c_region, &entry.reserved}) {
      if (rarely()) *field = static_cast<uint8_t>(random());
    }
    return entry;
  }

  RandomGenerator random_{FreshSeed()};
  const TemporaryFolder folder_;
  TestServer server_{Options(folder_)};
  const Client client_ = server_.NewClient();
  v1::GemmRequest request_;
  std::string expected_;
  std::atomic<int64_t> answers_{0};
  std::atomic<bool> stop_{false};
  std::thread honest_;
};

TEST_F(HostileLaneTest, SendsRandomRequests) {
  uint32_t handle = 0;
  std::unique_ptr<RawLane> lane = NewLane(&handle);
  int broken = 0;
  for (int i = 0; i < Steps(); ++i) {
    const lane::RequestEntry entry = RandomEntry(handle);
    lane->Publish(entry);
    // Else it goes on without a look at what the server has taken.
    if (entry.slot < 8 && random_() % 4 != 0) {
      lane->WaitForSlot(entry.slot, entry.cookie);
    }
    if (lane->head().ended.load() == 0) continue;
    ++broken;
    lane = NewLane(&handle);
  }
  EXPECT_GT(broken, 0);
}

// Writes of another thread while the server reads: of the words and entries.
TEST_F(HostileLaneTest, RacesItsOwnWords) {
  uint32_t handle = 0;
  for (int i = 0; i < Steps() / 30; ++i) {
    const std::unique_ptr<RawLane> lane = NewLane(&handle);
    std::atomic<bool> stop{false};
    std::thread racer([&lane, &stop, seed = random_()] {
      std::mt19937_64 random(seed);
      auto* const words =
          reinterpret_cast<std::atomic<uint64_t>*>(lane->segment());
      const uint64_t control = lane->layout().operands_offset / 8;
      while (!stop) {
        const uint64_t place =
            random() % 2 == 0 ? random() % 32 : random() % control;
        words[place].store(random() % 8 == 0 ? random() : random() % 16);
      }
    });
    for (int each = 0; each < 30 && lane->head().ended.load() == 0; ++each) {
      lane->Publish(RandomEntry(handle));
      if (random_() % 2 == 0) lane->Ring();
    }
    stop = true;
    racer.join();
  }
}

// Each field that is checked is legal at one moment and not at the next.
TEST_F(HostileLaneTest, FlipsEveryFieldThatIsChecked) {
  uint32_t handle = 0;
  std::unique_ptr<RawLane> lane = NewLane(&handle);
  for (int field = 0; field < 16; ++field) {
    std::atomic<bool> stop{false};
    std::thread flipper([&] {
      RawLane* const flipped = lane.get();
      while (!stop) {
        for (uint32_t slot = 0; slot < 8; ++slot) {
          auto* const words = reinterpret_cast<std::atomic<uint32_t>*>(
              flipped->requests() + slot);
          const uint32_t legal = words[field].load();
          words[field].store(legal ^ 0x80000041u);
          words[field].store(legal);
        }
        // And numbers that are operands.
        reinterpret_cast<std::atomic<uint8_t>*>(flipped->operands())[5] ^= 0x7c;
      }
    });
    for (int i = 0; i < Steps() / 16; ++i) {
      lane::RequestEntry entry;
      entry.handle = handle;
      entry.m = 2;
      entry.slot = i % 8;
      entry.cookie = field * 1000000 + i + 1;
      entry.a_bytes = entry.m * kK * 2;
      entry.c_offset = 32768 + entry.slot * 1024;
      entry.c_bytes = entry.m * kN * 2;
      entry.a_type = 2;
      lane->Publish(entry);
      const absl::Time patience = absl::Now() + absl::Milliseconds(20);
      while (lane->completion(entry.slot).cookie.load() != entry.cookie &&
             lane->head().ended.load() == 0 && absl::Now() < patience) {
        std::this_thread::yield();
      }
      if (lane->head().ended.load() != 0) break;
    }
    stop = true;
    flipper.join();
    lane = NewLane(&handle);
  }
}

// Steps of a client before it hangs up.
using Deed = std::function<void(RawLane*)>;

std::vector<Deed> Deeds() {
  const auto hello = [](RawLane* lane) { lane->Hello(kSmallLane, 8); };
  const auto publish = [hello](RawLane* lane) {
    hello(lane);
    lane::RequestEntry entry;
    entry.handle =
        lane->Open(lane::HandleKind::kWeights, "layer").message.handle;
    entry.m = 100;
    entry.a_bytes = entry.m * kK * 2;
    entry.c_offset = 32768;
    entry.c_bytes = entry.m * kN * 2;
    entry.a_type = 2;
    entry.cookie = 1;
    for (; entry.slot < 8; ++entry.slot) lane->Publish(entry);
  };
  return {
      [](RawLane*) {},
      [](RawLane* lane) { lane->Send(""); },
      [](RawLane* lane) { lane->Send("x"); },
      [](RawLane* lane) { lane->Send(std::string(20000, 'x')); },
      [](RawLane* lane) { lane->Send(ToPacket(MakeHello(kSmallLane))); },
      [](RawLane* lane) { lane->Send(ToPacket(MakeHello(kMost))); },
      [](RawLane* lane) { lane->Send(ToPacket(lane::Open())); },
      hello,
      [hello](RawLane* lane) {
        hello(lane);
        lane->Send(ToPacket(MakeHello(kSmallLane)));
        lane->WaitForEnd();
      },
      [hello](RawLane* lane) {
        hello(lane);
        lane->Close(77);
      },
      // Reads no answers.
      [hello](RawLane* lane) {
        hello(lane);
        lane::Close close;
        close.header.kind = lane::MessageKind::kClose;
        while (lane->Send(ToPacket(close))) {
        }
      },
      publish,
      [publish](RawLane* lane) {
        publish(lane);
        lane->WaitForSlot(7, 1);
      },
      [publish](RawLane* lane) {
        publish(lane);
        fallocate(lane->memory_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  0, static_cast<off_t>(lane->layout().segment_bytes));
      },
      [hello](RawLane* lane) {
        hello(lane);
        fcntl(lane->doorbell_fd(), F_SETFL, 0);
        const uint64_t full = kMost - 1;
        EXPECT_EQ(write(lane->doorbell_fd(), &full, sizeof(full)), 8);
      },
      [hello](RawLane* lane) {
        hello(lane);
        lane->head().published.store(kMost);
        lane->Ring();
        EXPECT_TRUE(lane->WaitForEnd().has_value());
      },
  };
}

TEST_F(HostileLaneTest, HangsUpAtEveryStep) {
  const std::vector<std::string> files = OpenFiles();
  const std::vector<Deed> deeds = Deeds();
  for (int i = 0; i < std::max(Steps() / 50, 2); ++i) {
    for (const Deed& deed : deeds) {
      RawLane lane(path());
      deed(&lane);
    }
  }
  const int port = server_.server().metrics_port();
  while (ScrapeMetric(port, "qgemm_connections{transport=\"lane\"}") > 1) {
  }
  // The last sockets that opened no lane may be closing; gRPC's client polls by
  // an event of its own after some seconds.
  const size_t most = files.size() + 1;
  const absl::Time patience = absl::Now() + absl::Seconds(20);
  while (OpenFiles().size() > most && absl::Now() < patience) {
    std::this_thread::yield();
  }
  EXPECT_LE(OpenFiles().size(), most)
      << "then: " << absl::StrJoin(files, ", ")
      << "\nnow: " << absl::StrJoin(OpenFiles(), ", ");
}

TEST_F(HostileLaneTest, IsKilledAtAnyMoment) {
  for (int i = 0; i < std::max(Steps() / 100, 5); ++i) {
    ChildProcess client("tests/end_to_end/lane_caller", {path()});
    client.WaitForOutput("calling");
    absl::SleepFor(absl::Microseconds(random_() % 3000));
    client.Signal(SIGKILL);
    EXPECT_EQ(client.Wait(), -SIGKILL);
  }
}

}  // namespace
}  // namespace qgemm
