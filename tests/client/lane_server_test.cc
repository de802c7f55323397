// SPDX-License-Identifier: Apache-2.0
//
// The client's lane against the real server: the bits of gRPC, names that come
// and go, and servers that are killed.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "qgemm/client.h"
#include "server/server.h"
#include "tests/end_to_end/child_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr int64_t kN = 128;
constexpr int64_t kK = 256;

class LaneServerTest : public testing::Test {
 protected:
  LaneServerTest() {
    char folder[] = "/tmp/qgemm_lane_XXXXXX";
    CHECK(mkdtemp(folder) != nullptr);
    folder_ = folder;
    ServerOptions options;
    options.listen = {absl::StrCat("unix:", folder_, "/grpc")};
    options.lane_listen = absl::StrCat("unix:", folder_, "/lane");
    options.backend.kind = BackendKind::kCpu;
    auto server = Server::Create(options);
    CHECK_OK(server.status());
    server_ = *std::move(server);
    by_lane_ = Connect(LaneUse::kRequired);
    by_grpc_ = Connect(LaneUse::kOff);
  }

  ~LaneServerTest() override {
    by_lane_.reset();
    by_grpc_.reset();
    server_.reset();
    unlink(absl::StrCat(folder_, "/grpc").c_str());
    unlink(absl::StrCat(folder_, "/lane").c_str());
    rmdir(folder_.c_str());
  }

  std::unique_ptr<Client> Connect(LaneUse use) {
    ClientOptions options;
    options.lane = use;
    auto client =
        Client::Connect(absl::StrCat("unix:", folder_, "/grpc"), options);
    CHECK_OK(client.status());
    return *std::move(client);
  }

  std::vector<float> Random(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& each : values) each = normal(random_);
    return values;
  }

  void Load(const std::string& name, QuantizeTarget target, int bits,
            int64_t n = kN) {
    const std::vector<float> values = Random(n * kK);
    DenseUpload dense;
    dense.n = n;
    dense.k = kK;
    dense.SetValues(values);
    dense.target = target;
    dense.bits = bits;
    LoadOptions options;
    options.name = name;
    CHECK_OK(by_grpc_->LoadWeights(dense, options).status());
  }

  // Both ways' answers to m rows, which must be the same.
  void ExpectSameBits(const std::string& name, int64_t m, FloatType c_type,
                      ComputeMode mode = ComputeMode::kA16) {
    const std::vector<float> a = Random(m * kK);
    GemmRequest request;
    request.weights = name;
    request.m = m;
    request.SetA(a);
    request.c_type = c_type;
    request.mode = mode;
    const auto lane = by_lane_->Gemm(request);
    const auto grpc = by_grpc_->Gemm(request);
    ASSERT_TRUE(lane.ok()) << lane.status();
    ASSERT_TRUE(grpc.ok()) << grpc.status();
    EXPECT_EQ(lane->n, grpc->n);
    EXPECT_EQ(lane->c, grpc->c) << name << " m=" << m;
    EXPECT_GT(lane->timings.total, absl::ZeroDuration());
  }

  std::string folder_;
  std::mt19937 random_{1};
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> by_lane_;
  std::unique_ptr<Client> by_grpc_;
};

TEST_F(LaneServerTest, GivesTheBitsOfGrpcForEveryFormat) {
  for (int bits = 2; bits <= 5; ++bits) {
    Load(absl::StrCat("kbit", bits), QuantizeTarget::kKbit, bits);
  }
  Load("q4_0", QuantizeTarget::kQ4_0, 4);
  Load("ternary", QuantizeTarget::kTernary, 4);
  Load("int4", QuantizeTarget::kInt4, 4);
  Load("dense", QuantizeTarget::kNone, 4);
  for (const char* name : {"kbit2", "kbit3", "kbit4", "kbit5", "q4_0",
                           "ternary", "int4", "dense"}) {
    for (const int64_t m : {1, 3, 64}) {
      ExpectSameBits(name, m, FloatType::kFloat32);
      ExpectSameBits(name, m, FloatType::kBFloat16);
    }
  }
  ExpectSameBits("q4_0", 5, FloatType::kFloat32, ComputeMode::kA8);
  ExpectSameBits("ternary", 5, FloatType::kFloat32, ComputeMode::kA32);
}

TEST_F(LaneServerTest, GivesTheBitsOfGrpcForAProgram) {
  Load("up", QuantizeTarget::kKbit, 4);
  ProgramBuilder builder(NumberType::kBFloat16);
  const auto x = builder.Input(kK, {"x", NumberType::kFloat32});
  const auto up = builder.Gemm(x, "up");
  builder.Output(builder.Act(up, Activation::kSilu));
  builder.Output(up);
  RegisterOptions options;
  options.name = "program";
  const auto registered = by_grpc_->RegisterProgram(builder.Build(), options);
  ASSERT_TRUE(registered.ok()) << registered.status();
  for (const int64_t m : {1, 7}) {
    const std::vector<float> rows = Random(m * kK);
    RunRequest run;
    run.program = "program";
    run.m = m;
    run.inputs = {AsBytes(rows)};
    const auto lane = by_lane_->Run(run);
    const auto grpc = by_grpc_->Run(run);
    ASSERT_TRUE(lane.ok()) << lane.status();
    ASSERT_TRUE(grpc.ok()) << grpc.status();
    EXPECT_EQ(lane->outputs, grpc->outputs);
  }
}

TEST_F(LaneServerTest, ComputesWhereTheOperandsAre) {
  Load("layer", QuantizeTarget::kKbit, 4);
  auto a = by_lane_->AllocateOperands(kK * 4);
  auto c = by_lane_->AllocateOperands(kN * 4);
  ASSERT_TRUE(a.ok() && c.ok());
  ASSERT_TRUE(a->is_in_lane() && c->is_in_lane());
  const std::vector<float> row = Random(kK);
  std::copy(row.begin(), row.end(), a->As<float>().begin());
  GemmRequest request;
  request.weights = "layer";
  request.m = 1;
  request.SetA(a->As<const float>());
  request.SetC(c->As<float>());
  ASSERT_TRUE(by_lane_->Gemm(request).ok());
  std::vector<float> expected(kN);
  request.SetA(row);
  request.SetC(absl::MakeSpan(expected));
  ASSERT_TRUE(by_grpc_->Gemm(request).ok());
  EXPECT_EQ(std::vector<float>(c->As<float>().begin(), c->As<float>().end()),
            expected);
}

TEST_F(LaneServerTest, NamesThatComeGoAndChangeShapeAreWhatTheyAreToGrpc) {
  const std::vector<float> row = Random(kK);
  GemmRequest request;
  request.weights = "layer";
  request.m = 1;
  request.SetA(row);
  EXPECT_TRUE(absl::IsNotFound(by_lane_->Gemm(request).status()));
  Load("layer", QuantizeTarget::kKbit, 4);
  EXPECT_EQ(by_lane_->Gemm(request)->n, kN);
  Load("layer", QuantizeTarget::kKbit, 4, 2 * kN);
  EXPECT_EQ(by_lane_->Gemm(request)->n, 2 * kN);
  EXPECT_EQ(by_lane_->Gemm(request)->c, by_grpc_->Gemm(request)->c);
  ASSERT_TRUE(by_grpc_->UnloadWeights("layer").ok());
  EXPECT_TRUE(absl::IsNotFound(by_lane_->Gemm(request).status()));
}

TEST_F(LaneServerTest, ThreadsGetTheirOwnAnswers) {
  Load("layer", QuantizeTarget::kKbit, 4);
  std::vector<std::vector<float>> rows;
  std::vector<std::string> expected;
  GemmRequest request;
  request.weights = "layer";
  request.m = 1;
  for (int i = 0; i < 4; ++i) {
    rows.push_back(Random(kK));
    request.SetA(rows.back());
    expected.push_back(by_grpc_->Gemm(request)->c);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      GemmRequest own = request;
      own.SetA(rows[i]);
      for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(by_lane_->Gemm(own)->c, expected[i]);
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

// Kills of the server: some by default, QGEMM_LANE_KILLS of them else.
int Kills() {
  const char* const kills = getenv("QGEMM_LANE_KILLS");
  return kills == nullptr ? 5 : std::atoi(kills);
}

// Calls until the server is killed, and counts the answers, each of which must
// be `expected`; every error must be UNAVAILABLE. `c` is where the answers are
// written, or empty.
int CallUntilKilled(Client* client, const GemmRequest& request,
                    absl::Span<const uint8_t> c, const std::string& expected) {
  for (int answers = 0;; ++answers) {
    const auto answer = client->Gemm(request);
    if (!answer.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
      return answers;
    }
    EXPECT_EQ(c.empty() ? answer->c : std::string(c.begin(), c.end()),
              expected);
  }
}

// The same by two threads of the client: one copies its operands, those of the
// other lie in the lane. Sets `began` when the first call has ended.
int CallTwiceUntilKilled(Client* client, absl::Span<const float> values,
                         std::promise<void> began) {
  GemmRequest request;
  request.weights = "layer";
  request.m = 1;
  request.SetA(values);
  const auto first = client->Gemm(request);
  began.set_value();
  if (!first.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(first.status())) << first.status();
    return 0;
  }
  int answers = 1;
  std::thread copying(
      [&] { answers += CallUntilKilled(client, request, {}, first->c); });
  int answers_in_place = 0;
  const auto a = client->AllocateOperands(request.a.size());
  const auto c = client->AllocateOperands(first->c.size());
  if (a.ok() && c.ok()) {
    absl::c_copy(request.a, a->bytes().begin());
    GemmRequest in_place = request;
    in_place.a = a->bytes();
    in_place.c = c->bytes();
    answers_in_place = CallUntilKilled(client, in_place, c->bytes(), first->c);
  }
  copying.join();
  return answers + answers_in_place;
}

TEST(LaneKillTest, ServersAreKilledAtAnyMoment) {
  std::mt19937 random(std::random_device{}());
  const std::vector<float> values(kN * kK, 0.25f);
  DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(values);
  dense.target = QuantizeTarget::kKbit;
  LoadOptions load;
  load.name = "layer";
  ClientOptions options;
  options.lane = LaneUse::kRequired;
  options.retry.max_attempts = 1;
  const TemporaryFolder folder;
  const std::string target = "unix:" + folder.File("grpc");
  int answers = 0;
  for (int kill = 0; kill < Kills(); ++kill) {
    ChildServer server({"--listen=" + target, "--backend=cpu",
                        "--lane_listen=unix:" + folder.File("lane")});
    server.WaitForAddress();
    auto client = Client::Connect(target, options);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->LoadWeights(dense, load).ok());
    // Every second server answers before.
    std::promise<void> began;
    std::thread killer([&server, delay = random() % 5000, waits = kill % 2 == 1,
                        first = began.get_future()] {
      if (waits) first.wait();
      absl::SleepFor(absl::Microseconds(delay));
      server.Signal(SIGKILL);
    });
    answers += CallTwiceUntilKilled(
        client->get(), absl::MakeConstSpan(values).first(kK), std::move(began));
    killer.join();
    EXPECT_EQ(server.Wait(), -SIGKILL);
  }
  EXPECT_GE(answers, Kills() / 2);
}

}  // namespace
}  // namespace qgemm
