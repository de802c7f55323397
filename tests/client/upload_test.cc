// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "qgemm/client.h"
#include "qgemm/weights.h"
#include "rpc/grpc_status.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

class UploadTest : public testing::Test {
 protected:
  UploadTest() {
    ClientOptions options;
    options.connect_timeout = absl::Minutes(5);
    options.retry.initial_backoff = absl::Milliseconds(1);
    client_ = *Client::Connect(service_.address(), options);
    const uint32_t seed = std::random_device()();
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    w_.resize(kN * kK);
    for (float& value : w_) value = normal(random);
    bias_.assign(kN, 0.25f);
  }

  EncodedWeights Encoded() const {
    EncodeOptions options;
    options.target = QuantizeTarget::kKbit;
    options.bits = 4;
    return *EncodeWeights(w_, kN, kK, bias_, options);
  }

  static std::string BytesOf(const EncodedWeights& weights) {
    std::string bytes;
    for (const auto& section : weights.sections) {
      bytes.append(section.bytes.begin(), section.bytes.end());
    }
    return bytes;
  }

  std::string SentBytes() const {
    std::string bytes;
    for (const auto& chunk : service_.chunks()) bytes += chunk.bytes();
    return bytes;
  }

  // One that yields `weights` in small reads and does not rewind.
  static WeightsStream OnePass(const EncodedWeights& weights) {
    constexpr size_t kReadBytes = 7;
    auto bytes = std::make_shared<std::string>(BytesOf(weights));
    WeightsStream stream;
    stream.spec = weights.spec;
    stream.read = [bytes](absl::Span<uint8_t> buffer) {
      const size_t count = std::min({buffer.size(), bytes->size(), kReadBytes});
      std::memcpy(buffer.data(), bytes->data(), count);
      bytes->erase(0, count);
      return absl::StatusOr<int64_t>(count);
    };
    return stream;
  }

  static constexpr int64_t kN = 24;
  static constexpr int64_t kK = 64;
  FakeService service_;
  std::unique_ptr<Client> client_;
  std::vector<float> w_;
  std::vector<float> bias_;
};

TEST_F(UploadTest, SendsAllBytesInOrderWithChecksums) {
  const EncodedWeights weights = Encoded();
  LoadOptions options;
  options.chunk_bytes = 100;
  ASSERT_TRUE(client_->LoadWeights(weights, options).ok());
  EXPECT_EQ(SentBytes(), BytesOf(weights));
  v1::Section section = v1::SECTION_UNSPECIFIED;
  uint64_t offset = 0;
  for (const auto& chunk : service_.chunks()) {
    EXPECT_EQ(chunk.crc32c(), Crc32c(chunk.bytes()));
    EXPECT_LE(chunk.bytes().size(), 100u);
    if (chunk.section() != section) {
      EXPECT_GT(chunk.section(), section);
      section = chunk.section();
      offset = 0;
    }
    EXPECT_EQ(chunk.offset(), offset);
    offset += chunk.bytes().size();
  }
}

TEST_F(UploadTest, HeaderSaysWhatTheSpecSays) {
  LoadOptions options;
  options.name = "layer";
  ASSERT_TRUE(client_->LoadWeights(Encoded(), options).ok());
  const v1::WeightsHeader header = service_.header();
  EXPECT_EQ(header.name(), "layer");
  EXPECT_EQ(header.n(), static_cast<uint64_t>(kN));
  EXPECT_EQ(header.k(), static_cast<uint64_t>(kK));
  EXPECT_TRUE(header.has_bias());
  EXPECT_EQ(header.kbit().bits(), 4u);
  EXPECT_EQ(header.total_bytes(), BytesOf(Encoded()).size());
}

TEST_F(UploadTest, HeaderHasTheConditionsOnTheName) {
  LoadOptions options;
  options.name = "layer";
  ASSERT_TRUE(client_->LoadWeights(Encoded(), options).ok());
  EXPECT_FALSE(service_.header().create_only());
  EXPECT_EQ(service_.header().if_match(), "");
  options.create_only = true;
  options.if_match = "id";
  ASSERT_TRUE(client_->LoadWeights(Encoded(), options).ok());
  EXPECT_TRUE(service_.header().create_only());
  EXPECT_EQ(service_.header().if_match(), "id");
}

TEST_F(UploadTest, IdIsTheHashOfTextAndBytes) {
  const EncodedWeights weights = Encoded();
  Sha256 hash;
  hash.Update(CanonicalText(weights.spec));
  hash.Update(BytesOf(weights));
  const Sha256Digest digest = hash.Finish();
  EXPECT_EQ(*IdOf(weights), ToHex(digest));
  ASSERT_TRUE(client_->LoadWeights(weights).ok());
  EXPECT_EQ(service_.header().sha256(),
            std::string(digest.begin(), digest.end()));
}

TEST_F(UploadTest, EarlyAnswerOfAServerThatHoldsThemIsTheResult) {
  service_.set_deduplicates(true);
  LoadOptions options;
  options.chunk_bytes = 1;  // far more chunks than go out before the answer
  const auto result = client_->LoadWeights(Encoded(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->deduplicated);
}

TEST_F(UploadTest, ProgressGoesFromZeroToTheTotal) {
  LoadOptions options;
  options.chunk_bytes = 64;
  std::vector<int64_t> sent;
  int64_t total = 0;
  options.progress = [&](const LoadProgress& progress) {
    sent.push_back(progress.sent_bytes);
    total = progress.total_bytes;
  };
  ASSERT_TRUE(client_->LoadWeights(Encoded(), options).ok());
  EXPECT_EQ(sent.front(), 0);
  EXPECT_EQ(sent.back(), total);
  EXPECT_TRUE(std::is_sorted(sent.begin(), sent.end()));
  EXPECT_EQ(total, static_cast<int64_t>(BytesOf(Encoded()).size()));
}

TEST_F(UploadTest, RetriesFromTheStart) {
  service_.FailNext(2, grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy"));
  const auto result = client_->LoadWeights(Encoded());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(service_.calls(), 3);
  EXPECT_EQ(SentBytes(), BytesOf(Encoded()));
}

TEST_F(UploadTest, RetriesAFullServerAfterItsDelay) {
  service_.FailNext(1, ToGrpcStatus(absl::ResourceExhaustedError("no memory"),
                                    absl::Milliseconds(1)));
  ASSERT_TRUE(client_->LoadWeights(Encoded()).ok());
  EXPECT_EQ(service_.calls(), 2);
  EXPECT_EQ(SentBytes(), BytesOf(Encoded()));
}

TEST_F(UploadTest, AOnePassStreamIsSentWithoutIdAndNotRetried) {
  const EncodedWeights weights = Encoded();
  ASSERT_TRUE(client_->LoadWeights(OnePass(weights)).ok());
  EXPECT_EQ(SentBytes(), BytesOf(weights));
  EXPECT_TRUE(service_.header().sha256().empty());
  service_.FailNext(1, grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy"));
  EXPECT_EQ(client_->LoadWeights(OnePass(weights)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(UploadTest, AFailingStreamEndsTheLoadWithItsStatus) {
  WeightsStream stream = OnePass(Encoded());
  stream.read = [](absl::Span<uint8_t>) -> absl::StatusOr<int64_t> {
    return absl::DataLossError("disk");
  };
  EXPECT_EQ(client_->LoadWeights(stream).status(), absl::DataLossError("disk"));
}

TEST_F(UploadTest, AStreamThatBreaksItsContractIsInternal) {
  WeightsStream stream = OnePass(Encoded());
  stream.read = [](absl::Span<uint8_t> buffer) {
    return absl::StatusOr<int64_t>(buffer.size() + 1);
  };
  EXPECT_EQ(client_->LoadWeights(stream).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(UploadTest, WrongSectionsAreRefusedBeforeACall) {
  EncodedWeights weights = Encoded();
  weights.sections.back().bytes.pop_back();
  EXPECT_EQ(client_->LoadWeights(weights).status().code(),
            absl::StatusCode::kInvalidArgument);
  weights = Encoded();
  std::swap(weights.sections[0], weights.sections[1]);
  EXPECT_EQ(client_->LoadWeights(weights).status().code(),
            absl::StatusCode::kInvalidArgument);
  weights = Encoded();
  weights.sections.pop_back();
  EXPECT_THAT(std::string(client_->LoadWeights(weights).status().message()),
              HasSubstr("missing"));
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(UploadTest, ChunksBeyondTheMessageLimitAreRefused) {
  LoadOptions options;
  options.chunk_bytes = int64_t{64} << 20;
  EXPECT_EQ(client_->LoadWeights(Encoded(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.chunk_bytes = 0;
  EXPECT_EQ(client_->LoadWeights(Encoded(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(UploadTest, DenseUploadNamesTheTargetAndSendsBiasFirst) {
  DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.SetValues(w_);
  dense.bias = bias_;
  dense.target = QuantizeTarget::kInt4;
  dense.group_size = 32;
  dense.asymmetric = true;
  ASSERT_TRUE(client_->LoadWeights(dense).ok());
  const v1::DenseFormat format = service_.header().dense();
  EXPECT_EQ(format.type(), v1::FLOAT_TYPE_FP32);
  EXPECT_EQ(format.quantize_int4().group_size(), 32u);
  EXPECT_TRUE(format.quantize_int4().has_zeros());
  EXPECT_EQ(service_.chunks().front().section(), v1::SECTION_BIAS);
  EXPECT_EQ(SentBytes().size(), (kN + kN * kK) * sizeof(float));
}

TEST_F(UploadTest, DenseUploadOfAWrongByteCountIsRefused) {
  DenseUpload dense;
  dense.n = kN;
  dense.k = kK;
  dense.bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(w_.data()),
                                    w_.size());
  EXPECT_EQ(client_->LoadWeights(dense).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
