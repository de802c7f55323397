// SPDX-License-Identifier: Apache-2.0
//
// Properties of every decoder, over every kind of upload.

#include "kernels/formats/weights_decoder.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(WeightsDecoder, CutsDoNotMatter) {
  FreshRandom random;
  for (const WeightsSpec& spec : AllSpecs()) {
    SCOPED_TRACE(CanonicalText(spec));
    const Upload upload = RandomUpload(spec, &random);
    const auto whole = upload.Decode();
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (const int64_t piece : {1, 7, 64, 1000}) {
      const auto cut = upload.Decode(piece);
      ASSERT_TRUE(cut.ok()) << cut.status();
      EXPECT_TRUE(SameWeights(cut->weights, whole->weights)) << piece;
    }
    for (const int64_t longest : {20, 500}) {
      const auto cut = upload.DecodeRandomly(&random, longest);
      ASSERT_TRUE(cut.ok()) << cut.status();
      EXPECT_TRUE(SameWeights(cut->weights, whole->weights));
    }
  }
}

TEST(WeightsDecoder, SeveralPanelsMakeTheSameWeightsAsOneRowAtATime) {
  // More codes than a panel holds.
  FreshRandom random;
  WeightsSpec gptq = Int4Spec(4096, 256, Int4Layout::kGptqV1, 128);
  gptq.has_group_index = true;
  for (const WeightsSpec& spec :
       {KbitSpec(600, 1024, 4), Q4_0Spec(600, 1024),
        TernarySpec(600, 1021, TernaryCoding::kPacked012),
        Int4Spec(600, 1021, Int4Layout::kPlain, 64), gptq,
        Int4Spec(4096, 256, Int4Layout::kAwq, 128),
        DenseSpec(600, 1021, FloatType::kFloat32)}) {
    SCOPED_TRACE(CanonicalText(spec));
    const Upload upload = RandomUpload(spec, &random);
    const auto whole = upload.Decode();
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto cut = upload.Decode(999);
    ASSERT_TRUE(cut.ok()) << cut.status();
    EXPECT_TRUE(SameWeights(cut->weights, whole->weights));
  }
}

TEST(WeightsDecoder, HeaderIsTheShapeOfTheSpec) {
  FreshRandom random;
  for (const WeightsSpec& spec : AllSpecs()) {
    SCOPED_TRACE(CanonicalText(spec));
    const auto decoded = RandomUpload(spec, &random).Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const WeightsHeader& header = decoded->weights.header();
    const WeightsHeader shape = HeaderOf(spec);
    EXPECT_EQ(header.kind, shape.kind);
    EXPECT_EQ(header.bits, shape.bits);
    EXPECT_EQ(header.codebook.size(), shape.codebook.size());
    EXPECT_EQ(header.group_size, shape.group_size);
    EXPECT_EQ(header.scale_type, shape.scale_type);
    EXPECT_EQ(header.has_zeros, shape.has_zeros);
    EXPECT_EQ(header.dense_type, shape.dense_type);
    EXPECT_EQ(header.permutation.size(), shape.permutation.size());
  }
}

TEST(WeightsDecoder, BiasArrives) {
  FreshRandom random;
  for (const WeightsSpec& spec : AllSpecs()) {
    Upload upload = RandomUpload(spec, &random);
    for (int64_t i = 0; i < spec.n; ++i) {
      upload.Put<float>(Section::kBias, i, i - 0.5f);
    }
    const auto decoded = upload.Decode();
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    for (int64_t i = 0; i < spec.n; ++i) {
      ASSERT_EQ(decoded->weights.header().bias[i], i - 0.5f);
    }
  }
}

TEST(WeightsDecoder, BiasMustBeFinite) {
  WeightsSpec spec = DenseSpec(3, 2, FloatType::kFloat16);
  spec.has_bias = true;
  Upload upload(spec);
  upload.Put<float>(Section::kBias, 2, 1.0f / 0.0f);
  const absl::Status status = upload.Decode().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bias[2] = inf"));
}

class WeightsDecoderErrors : public ::testing::Test {
 protected:
  // 2 rows of 32 codes: 2 bytes of scales, 32 of codes.
  WeightsDecoderErrors()
      : decoder_(NewWeightsDecoder(KbitSpec(2, 32, 4), &sink_)) {}

  void ExpectInvalid(const absl::Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const std::vector<uint8_t> bytes_ = std::vector<uint8_t>(100);
  absl::Span<const uint8_t> Bytes(size_t count) const {
    return absl::MakeSpan(bytes_).subspan(0, count);
  }

  CountingSink sink_;
  std::unique_ptr<WeightsDecoder> decoder_;
};

TEST_F(WeightsDecoderErrors, SectionsOutOfOrderAreRefused) {
  ASSERT_TRUE(decoder_->Append(Section::kScales, Bytes(1)).ok());
  ExpectInvalid(decoder_->Append(Section::kCodes, Bytes(32)),
                "byte 1 of 2 of section scales comes first");
}

TEST_F(WeightsDecoderErrors, SectionsOfOtherFormatsAreRefused) {
  ExpectInvalid(decoder_->Append(Section::kZeros, Bytes(1)), "section zeros");
}

TEST_F(WeightsDecoderErrors, BytesPastASectionAreRefused) {
  ExpectInvalid(decoder_->Append(Section::kScales, Bytes(3)),
                "3 bytes at offset 0 pass its end at 2");
}

TEST_F(WeightsDecoderErrors, BytesPastTheEndAreRefused) {
  ASSERT_TRUE(decoder_->Append(Section::kScales, Bytes(2)).ok());
  ASSERT_TRUE(decoder_->Append(Section::kCodes, Bytes(32)).ok());
  ExpectInvalid(decoder_->Append(Section::kCodes, Bytes(1)), "after the end");
}

TEST_F(WeightsDecoderErrors, ShortSectionIsNamedAtTheEnd) {
  ASSERT_TRUE(decoder_->Append(Section::kScales, Bytes(2)).ok());
  ASSERT_TRUE(decoder_->Append(Section::kCodes, Bytes(31)).ok());
  ExpectInvalid(decoder_->Finish().status(),
                "section codes: ends after 31 of 32 bytes");
}

TEST_F(WeightsDecoderErrors, NothingAtAllIsShort) {
  ExpectInvalid(decoder_->Finish().status(), "ends after 0 of 2 bytes");
}

TEST_F(WeightsDecoderErrors, AnErrorStays) {
  const absl::Status error = decoder_->Append(Section::kBias, Bytes(1));
  EXPECT_EQ(decoder_->Append(Section::kScales, Bytes(2)), error);
  EXPECT_EQ(decoder_->Finish().status(), error);
}

TEST_F(WeightsDecoderErrors, EmptyPiecesAreFine) {
  EXPECT_TRUE(decoder_->Append(Section::kScales, {}).ok());
  ASSERT_TRUE(decoder_->Append(Section::kScales, Bytes(2)).ok());
  EXPECT_TRUE(decoder_->Append(Section::kCodes, {}).ok());
}

// Refuses at the first call of a kind.
class RefusingSink final : public WeightsSink {
 public:
  enum class At { kBegin, kScales, kZeros, kCodes, kDense };
  explicit RefusingSink(At at) : at_(at) {}

  absl::Status Begin(const WeightsHeader&) override {
    return Answer(At::kBegin);
  }
  absl::Status WriteCodes(const CodePanel&) override {
    return Answer(At::kCodes);
  }
  absl::Status WriteScales(const GroupPanel&) override {
    return Answer(At::kScales);
  }
  absl::Status WriteZeros(const GroupPanel&) override {
    return Answer(At::kZeros);
  }
  absl::Status WriteDense(const DensePanel&) override {
    return Answer(At::kDense);
  }
  absl::Status SetTensorScale(float) override { return absl::OkStatus(); }

  bool refused() const { return refused_; }
  bool called_after_refusal() const { return called_after_refusal_; }

 private:
  absl::Status Answer(At at) {
    called_after_refusal_ |= refused_;
    if (at != at_) return absl::OkStatus();
    refused_ = true;
    return absl::ResourceExhaustedError("sink is full");
  }

  const At at_;
  bool refused_ = false;
  bool called_after_refusal_ = false;
};

TEST(WeightsDecoder, ReturnsTheSinksErrorAndLeavesItAlone) {
  FreshRandom random;
  using At = RefusingSink::At;
  int refusals = 0;
  for (const WeightsSpec& spec : AllSpecs()) {
    SCOPED_TRACE(CanonicalText(spec));
    Upload upload = RandomUpload(spec, &random);
    for (const At at :
         {At::kBegin, At::kScales, At::kZeros, At::kCodes, At::kDense}) {
      RefusingSink sink(at);
      const auto decoder = NewWeightsDecoder(spec, &sink);
      for (const SectionSize& size : SectionsOf(spec)) {
        (void)decoder->Append(size.section, upload[size.section]);
      }
      const absl::Status status = decoder->Finish().status();
      EXPECT_FALSE(sink.called_after_refusal());
      EXPECT_EQ(status.ok(), !sink.refused());
      if (!sink.refused()) continue;
      ++refusals;
      EXPECT_EQ(status, absl::ResourceExhaustedError("sink is full"));
    }
  }
  EXPECT_GT(refusals, 0);
}

}  // namespace
}  // namespace qgemm
