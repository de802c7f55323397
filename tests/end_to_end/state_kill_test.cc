// SPDX-License-Identifier: Apache-2.0
//
// kill -9 at random moments of uploads, bindings, unloads and evictions: what
// was acknowledged is there after each, whole, and nothing else is.
// QGEMM_KILLS in the environment sets their number.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr int64_t kK = 64;
constexpr int kNames = 4;    // of each client
constexpr int kClients = 3;  // at one time
constexpr int kUploads = 12;

int Kills() {
  const char* const kills = getenv("QGEMM_KILLS");
  return kills == nullptr ? 40 : atoi(kills);
}

// A layer that may be loaded, a request for it, and its answer.
struct Known {
  RandomUpload upload;
  std::string id;
  v1::GemmRequest request;
  std::string answer;
};

// One client, who alone binds its names, and what it knows of them.
struct NameState {
  std::string id;                  // acknowledged; empty: bound to nothing
  std::set<std::string> possible;  // of a call that was cut off
};

class StateKillTest : public ::testing::Test {
 protected:
  StateKillTest() {
    TestServer reference;  // without a state directory
    const Client client = reference.NewClient();
    for (int i = 0; i < kUploads; ++i) {
      WeightsSpec spec;
      spec.format = WireFormat::kQ4_0;
      spec.n = 64 * RandomInt(1, 80, &random_);
      spec.k = kK;
      Known known;
      known.upload = MakeRandomUpload(spec, &random_);
      known.id = absl::BytesToHexString(IdOf(known.upload));
      known.request = MakeGemm(known.id, 2, kK, &random_);
      EXPECT_TRUE(client.Load(ToMessages(known.upload, "")).ok());
      known.answer = client.Gemm(known.request).response.c();
      by_id_[known.id] = known_.size();
      known_.push_back(std::move(known));
    }
  }

  static std::string NameOf(int client, int name) {
    return absl::StrCat("client", client, "/name", name);
  }

  // Loads, binds and unloads until the server goes.
  void Work(int number, const std::string& address, uint64_t seed) {
    RandomGenerator random(seed);
    const Client client(address);
    while (true) {
      const std::string name =
          NameOf(number, static_cast<int>(RandomInt(0, kNames - 1, &random)));
      NameState& state = states_[number][name];
      if (RandomInt(0, 2, &random) > 0) {
        const Known& known = RandomElement(known_, &random);
        std::vector<v1::LoadWeightsRequest> messages =
            ToMessages(known.upload, name, RandomInt(1000, 65536, &random));
        // With an id it may go on where one that a kill cut off came to.
        if (RandomInt(0, 1, &random) == 1) {
          messages[0].mutable_header()->set_sha256(IdOf(known.upload));
        }
        state.possible = {known.id};
        if (!client.Load(messages).ok()) return;
        state.id = known.id;
      } else if (!state.id.empty()) {
        state.possible = {""};
        if (!client.Unload(name).ok()) return;
        state.id.clear();
      }
      state.possible.clear();
    }
  }

  // Expects the server to hold what was acknowledged, and to answer right.
  void Check(const Client& client) {
    std::set<std::string> expected_ids;
    for (auto& names : states_) {
      for (auto& [name, state] : names) {
        const auto found = client.Get(name);
        const std::string id = found.ok() ? found.response.weights().id() : "";
        EXPECT_TRUE(id == state.id || state.possible.count(id) != 0)
            << name << " is \"" << id << "\", was \"" << state.id << "\"";
        state.id = id;
        state.possible.clear();
        if (id.empty()) continue;
        expected_ids.insert(id);
        const Known& known = known_[by_id_.at(id)];
        v1::GemmRequest request = known.request;
        request.set_weights(name);
        const auto answer = client.Gemm(request);
        EXPECT_TRUE(answer.ok()) << answer.status.error_message();
        EXPECT_EQ(answer.response.c(), known.answer) << name;
      }
    }
    std::set<std::string> ids;
    for (const v1::WeightsInfo& info : client.List()) ids.insert(info.id());
    EXPECT_EQ(ids, expected_ids);
  }

  // Kills servers again and again, and checks what the next ones have. Before
  // clients work they leave the server alone for up to `most_calm`, and may
  // not come to it.
  void KillAndCheck(const std::vector<std::string>& more_flags,
                    absl::Duration most_calm = absl::ZeroDuration()) {
    std::vector<std::string> flags = {
        "--listen=127.0.0.1:0", "--backend=cpu", "--ready=none",
        // Some layers only are in memory at one time.
        "--weights_budget_bytes=1500KiB", "--min_residency=0",
        "--state_dir=" + folder_.File("state")};
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    for (int kill = 0; kill < Kills() && !HasFailure(); ++kill) {
      ChildServer server(flags);
      const std::string address = server.WaitForAddress();
      ASSERT_FALSE(address.empty()) << server.output();
      Check(Client(address));
      absl::SleepFor(most_calm * RandomInt(0, 100, &random_) / 100);
      const bool is_calm =
          most_calm > absl::ZeroDuration() && RandomInt(0, 1, &random_) == 1;
      std::vector<std::thread> clients;
      for (int i = 0; i < (is_calm ? 0 : kClients); ++i) {
        clients.emplace_back(
            [this, i, address, seed = random_()] { Work(i, address, seed); });
      }
      if (!is_calm) {
        absl::SleepFor(absl::Microseconds(RandomInt(0, 60000, &random_)));
      }
      server.Signal(SIGKILL);
      server.Wait();
      for (std::thread& client : clients) client.join();
    }
    ChildServer server(flags);
    Check(Client(server.WaitForAddress()));
  }

  const TemporaryFolder folder_;
  RandomGenerator random_{FreshSeed()};
  std::vector<Known> known_;
  std::map<std::string, size_t> by_id_;
  std::vector<std::map<std::string, NameState>> states_{kClients};
};

TEST_F(StateKillTest, KeepsWhatWasAcknowledgedAndNothingElse) {
  KillAndCheck({});
}

TEST_F(StateKillTest, TheSameWithImages) {
  KillAndCheck({"--state_image_bytes=1GB"}, absl::Milliseconds(400));
}

TEST_F(StateKillTest, TheSameWithMemoryThatOutlivesTheServer) {
  const std::string socket = folder_.File("holder");
  ChildProcess holder("server/keep/qgemm_holder", {"--listen=" + socket});
  ASSERT_EQ(holder.WaitForOutput("holding at "), socket);
  KillAndCheck({"--keep_memory=" + socket});
}

}  // namespace
}  // namespace qgemm
