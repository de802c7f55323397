// SPDX-License-Identifier: Apache-2.0
//
// Launches are the stream's to order: replayed from a graph, or on several
// streams at once, they give the bits that they give alone.

#include "kernels/cuda/runtime/stream.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/captured_graph.h"
#include "tests/kernels/cuda/device_decode.h"
#include "tests/kernels/cuda/device_test.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kRows[] = {1, 16, 64, 7};

class StreamTest : public DeviceTest,
                   public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const LayerSize shape =
        ShapeWith(2, 1, device_.traits).value_or(LayerSize{200, 512});
    gemm_.emplace(RandomWeights(WeightsRecipeNamed(GetParam()), shape.n,
                                shape.k, &random_),
                  device_, FloatType::kBFloat16, &random_);
    const GemmBuffers buffers = gemm_->NewBuffers(std::size(kRows));
    for (size_t i = 0; i < std::size(kRows); ++i) {
      ASSERT_EQ(gemm_->Enqueue(kRows[i], i, buffers, nullptr), cudaSuccess);
      alone_.push_back(gemm_->Read(kRows[i], i, buffers));
    }
  }

  static Stream NewStream() {
    absl::StatusOr<Stream> stream = Stream::Create();
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  void ExpectAsAlone(const GemmBuffers& buffers) const {
    for (size_t i = 0; i < std::size(kRows); ++i) {
      EXPECT_TRUE(gemm_->Read(kRows[i], i, buffers) == alone_[i])
          << kRows[i] << " rows";
    }
  }

  RandomGenerator random_{FreshSeed()};
  std::optional<DeviceDecode> gemm_;
  std::vector<std::vector<uint8_t>> alone_;
};

// The global mode refuses whatever allocates or waits.
TEST_P(StreamTest, AGraphReplaysTheSameBits) {
  const Stream stream = NewStream();
  const GemmBuffers buffers = gemm_->NewBuffers(std::size(kRows));
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal),
            cudaSuccess);
  for (size_t i = 0; i < std::size(kRows); ++i) {
    EXPECT_EQ(gemm_->Enqueue(kRows[i], i, buffers, stream.get()), cudaSuccess);
  }
  const CapturedGraph graph(stream.get());
  ASSERT_FALSE(HasFailure());
  for (int replay = 0; replay < 3; ++replay) {
    ASSERT_EQ(cudaMemsetAsync(buffers.c.data(), 0xff, buffers.c.size_bytes(),
                              stream.get()),
              cudaSuccess);
    ASSERT_EQ(graph.Launch(stream.get()), cudaSuccess);
    ExpectAsAlone(buffers);
  }
}

TEST_P(StreamTest, SeveralStreamsGiveTheSameBits) {
  constexpr int kStreams = 4;
  constexpr int kRounds = 50;
  std::vector<Stream> streams;
  std::vector<GemmBuffers> buffers;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(NewStream());
    buffers.push_back(gemm_->NewBuffers(std::size(kRows)));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int s = 0; s < kStreams; ++s) {
      // Streams are at different launches at any time.
      const size_t i = (round + s) % std::size(kRows);
      ASSERT_EQ(gemm_->Enqueue(kRows[i], i, buffers[s], streams[s].get()),
                cudaSuccess);
    }
  }
  for (const GemmBuffers& each : buffers) ExpectAsAlone(each);
}

INSTANTIATE_TEST_SUITE_P(Recipes, StreamTest,
                         testing::Values("kbit2", "kbit4", "ternary_bias",
                                         "int4_g128_zeros_fp16_act_order"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace qgemm::cuda
