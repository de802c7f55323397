// SPDX-License-Identifier: Apache-2.0
//
// The proxy in front of a real server: it damages what it is told to, and
// nothing else.

#include "tests/support/tampering_proxy.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "tests/end_to_end/test_server.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;

// A server that holds "layer", and a request for it.
class TamperingProxyTest : public ::testing::Test {
 protected:
  TamperingProxyTest() : direct_(server_.NewClient()) {
    LoadLayer(direct_, kN, kK, &random_);
    request_ = MakeGemm("layer", 2, kK, &random_);
    const auto answer = direct_.Gemm(request_);
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    right_ = answer.response.c();
  }

  // Bits that are wrong in the last byte of each of `count` answers through the
  // proxy; all other bytes must be right.
  std::vector<int> Damage(const TamperingProxy& proxy, int count) {
    const Client client(proxy.address());
    std::vector<int> damage;
    for (int i = 0; i < count; ++i) {
      std::string c = client.Gemm(request_).response.c();
      EXPECT_EQ(c.size(), right_.size());
      damage.push_back(static_cast<uint8_t>(c.back() ^ right_.back()));
      c.back() = right_.back();
      EXPECT_EQ(c, right_);
    }
    return damage;
  }

  const uint64_t seed_ = FreshSeed();
  RandomGenerator random_{seed_};
  HeldServer server_;
  const Client direct_;
  v1::GemmRequest request_;
  std::string right_;
};

TEST_F(TamperingProxyTest, ForwardsEveryMethod) {
  const TamperingProxy proxy(server_.test_server().address());
  const Client client(proxy.address());
  EXPECT_EQ(client.List().size(), 1);
  LoadLayer(client, /*n=*/512, /*k=*/1024, &random_);  // in several chunks
  EXPECT_EQ(direct_.Get("layer").response.weights().n(), 512);
  EXPECT_TRUE(client.Unload("layer").ok());
  EXPECT_FALSE(direct_.Get("layer").ok());
}

TEST_F(TamperingProxyTest, ForwardsErrorsWithTheirDetails) {
  const TamperingProxy proxy(server_.test_server().address());
  server_.backend().FailStaging(1, absl::ResourceExhaustedError("no staging"));
  const grpc::Status status = Client(proxy.address()).Gemm(request_).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("no staging"));
  EXPECT_THAT(status.error_details(), HasSubstr("RetryInfo"));
}

TEST_F(TamperingProxyTest, DamagesNothingByDefault) {
  const TamperingProxy proxy(server_.test_server().address());
  EXPECT_THAT(Damage(proxy, 8), Each(0));
  EXPECT_EQ(proxy.answers(), 8);
  EXPECT_EQ(proxy.flipped(), 0);
}

TEST_F(TamperingProxyTest, FlipsTheBitInOneAnswerOfEachSoMany) {
  TamperingOptions options;
  options.every = RandomInt(1, 5, &random_);
  options.bit = static_cast<int>(RandomInt(0, 7, &random_));
  options.seed = seed_;
  const TamperingProxy proxy(server_.test_server().address(), options);
  for (int64_t stretch = 1; stretch <= 8; ++stretch) {
    std::vector<int> damage = Damage(proxy, static_cast<int>(options.every));
    std::vector<int> expected(options.every, 0);
    expected.back() = 1 << options.bit;
    std::sort(damage.begin(), damage.end());
    EXPECT_EQ(damage, expected);
    EXPECT_EQ(proxy.flipped(), stretch);
  }
}

TEST_F(TamperingProxyTest, EqualSeedsDamageTheSameAnswers) {
  TamperingOptions options;
  options.every = 10;
  options.seed = seed_;
  const TamperingProxy one(server_.test_server().address(), options);
  const TamperingProxy other(server_.test_server().address(), options);
  EXPECT_EQ(Damage(one, 40), Damage(other, 40));
}

TEST_F(TamperingProxyTest, LeavesOtherMethodsAlone) {
  TamperingOptions options;
  options.every = 1;
  const TamperingProxy proxy(server_.test_server().address(), options);
  EXPECT_EQ(Client(proxy.address()).Get("layer").response.SerializeAsString(),
            direct_.Get("layer").response.SerializeAsString());
  EXPECT_EQ(proxy.answers(), 0);
}

TEST_F(TamperingProxyTest, DiesWithCallsInProgress) {
  TamperingProxy proxy(server_.test_server().address());
  const Client client(proxy.address());
  server_.backend().Hold();
  auto held =
      std::async(std::launch::async, [&] { return client.Gemm(request_); });
  server_.backend().WaitForHeld(1);
  proxy.Die();
  EXPECT_FALSE(held.get().ok());
  EXPECT_EQ(client.Gemm(request_).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  server_.backend().ReleaseAll();
  EXPECT_TRUE(direct_.Gemm(request_).ok());
}

}  // namespace
}  // namespace qgemm
