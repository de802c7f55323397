// SPDX-License-Identifier: Apache-2.0
//
// The memory of a server that holds a 4-bit matrix, during and after its
// upload: at most 1.25 times the packed size and 150 MB, and back after it.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <tuple>

#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

constexpr int64_t kFixedBytes = 150'000'000;
constexpr int64_t kChunkBytes = 1 << 20;

// Large enough that a second copy of the matrix would break the bound.
class MemoryTest : public ::testing::TestWithParam<std::string> {
 protected:
  static WeightsSpec Spec() {
    WeightsSpec spec;
    spec.n = 28672;
    spec.k = 16384;
    if (GetParam() == "kbit4") {
      spec.format = WireFormat::kKbit;
      spec.bits = 4;
      spec.scale_type = ScaleType::kE4m4;
    } else {
      spec.format = WireFormat::kQ4_0;
    }
    return spec;
  }
};

TEST_P(MemoryTest, StaysWithinItsBound) {
  RandomGenerator random(FreshSeed());
  ChildServer server({"--listen=127.0.0.1:0", "--threads=2"});
  const Client client(server.WaitForAddress());
  const RandomUpload upload = MakeRandomUpload(Spec(), &random);
  const int64_t packed_bytes = TotalBytes(upload.spec);

  const auto loaded = client.Load(ToMessages(upload, "layer", kChunkBytes));
  ASSERT_TRUE(loaded.ok()) << loaded.status.error_message();
  const auto answer = client.Gemm(MakeGemm("layer", 1, upload.spec.k, &random));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();

  EXPECT_LE(server.PeakResidentBytes(), packed_bytes * 5 / 4 + kFixedBytes);
  RecordProperty("peak_bytes", std::to_string(server.PeakResidentBytes()));
  RecordProperty("packed_bytes", std::to_string(packed_bytes));
}

// A second layer after the first has gone needs no more than the first did.
TEST_P(MemoryTest, GoesBackWithTheWeights) {
  RandomGenerator random(FreshSeed());
  ChildServer server({"--listen=127.0.0.1:0", "--threads=2"});
  const Client client(server.WaitForAddress());
  const RandomUpload upload = MakeRandomUpload(Spec(), &random);
  const auto messages = ToMessages(upload, "layer", kChunkBytes);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.Load(messages).ok());
    ASSERT_TRUE(client.Unload("layer").ok());
  }
  EXPECT_LE(server.PeakResidentBytes(),
            TotalBytes(upload.spec) * 5 / 4 + kFixedBytes);
}

INSTANTIATE_TEST_SUITE_P(Formats, MemoryTest,
                         ::testing::Values("kbit4", "q4_0"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace qgemm
