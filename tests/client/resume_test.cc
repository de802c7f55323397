// SPDX-License-Identifier: Apache-2.0
//
// Loads of a client whose server is killed in the middle, or who leaves there.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "qgemm/client.h"
#include "tests/support/child_process.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr int64_t kN = 4096;
constexpr int64_t kK = 4096;
constexpr int64_t kBytes = kN * kK * 2;  // 32 MiB

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : values_(kN * kK) {
    for (Half& value : values_) {
      value.bits = static_cast<uint16_t>(random_() & 0x3bff);
    }
  }

  std::string target() const {
    return absl::StrCat("unix:", folder_.File("socket"));
  }

  void StartServer() {
    server_ = std::make_unique<ChildProcess>(
        "server/qgemm_server",
        std::vector<std::string>{
            absl::StrCat("--listen=", target()), "--backend=cpu",
            absl::StrCat("--state_dir=", folder_.File("state"))});
    server_->WaitForOutput("serving on ");
  }

  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.connect_timeout = absl::Minutes(1);
    options.retry.max_attempts = 10;
    auto client = Client::Connect(target(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  DenseUpload Layer() {
    DenseUpload dense;
    dense.n = kN;
    dense.k = kK;
    dense.SetValues(values_);
    dense.resident_type = FloatType::kFloat16;
    return dense;
  }

  // Expects the server to multiply with the values: one of a is 1, the others
  // 0.
  void ExpectRight(Client* client) {
    const int64_t column = RandomInt(0, kK - 1, &random_);
    std::vector<Half> a(kK);
    a[column] = Half(1.0f);
    GemmRequest request;
    request.weights = "layer";
    request.m = 1;
    request.SetA(a);
    const auto result = client->Gemm(request);
    ASSERT_TRUE(result.ok()) << result.status();
    const std::vector<float> c = result->ToFloats();
    for (int64_t i = 0; i < kN; ++i) {
      EXPECT_EQ(c[i], static_cast<float>(values_[i * kK + column])) << i;
    }
  }

  const TemporaryFolder folder_;
  RandomGenerator random_{FreshSeed()};
  std::vector<Half> values_;
  std::unique_ptr<ChildProcess> server_;
};

TEST_F(ResumeTest, ALoadGoesOnWhenItsServerWasKilled) {
  StartServer();
  const auto client = Connect();
  LoadOptions options;
  options.name = "layer";
  bool killed = false;
  options.progress = [&](const LoadProgress& progress) {
    if (progress.sent_bytes < kBytes * 9 / 10 || killed) return;
    killed = true;
    server_->Signal(SIGKILL);
    server_->Wait();
    StartServer();
  };
  const auto result = client->LoadWeights(Layer(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(killed);
  EXPECT_FALSE(result->deduplicated);
  // Bytes on their way when the server died, a window of gRPC's at most, come
  // again, and a block.
  EXPECT_GE(result->resumed_bytes, kBytes / 4);
  EXPECT_LT(result->resumed_bytes, kBytes);
  ExpectRight(client.get());
}

TEST_F(ResumeTest, AnotherProcessGoesOnIfItAsks) {
  StartServer();
  LoadOptions options;
  options.name = "layer";
  {
    // The stream fails, as a client does that is killed.
    const auto client = Connect();
    int64_t read = 0;
    int passes = 0;
    WeightsStream stream;
    stream.spec = SpecOf(Layer());
    stream.read = [&](absl::Span<uint8_t> buffer) -> absl::StatusOr<int64_t> {
      if (passes > 0 && read >= kBytes * 9 / 10) {
        return absl::CancelledError("gone");
      }
      const auto bytes =
          std::min<int64_t>(buffer.size(), values_.size() * 2 - read);
      std::memcpy(buffer.data(),
                  reinterpret_cast<const char*>(values_.data()) + read, bytes);
      read += bytes;
      return bytes;
    };
    stream.rewind = [&] {
      ++passes;
      read = 0;
      return absl::OkStatus();
    };
    EXPECT_EQ(client->LoadWeights(stream, options).status().code(),
              absl::StatusCode::kCancelled);
  }
  const auto client = Connect();
  options.resume = true;
  const auto result = client->LoadWeights(Layer(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(result->resumed_bytes, kBytes / 4);
  ExpectRight(client.get());
  const std::string missing(64, 'a');
  const auto found = client->FindMissingWeights({result->weights.id, missing});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<std::string>{missing});
  // To resume what is complete is free.
  const auto again = client->LoadWeights(Layer(), options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->deduplicated);
  EXPECT_EQ(again->resumed_bytes, 0);
}

}  // namespace
}  // namespace qgemm
