// SPDX-License-Identifier: Apache-2.0
//
// Uploads that are wrong: each gets its code and a message, nothing becomes
// visible, the memory goes back, and the same upload done right succeeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;

using Messages = std::vector<v1::LoadWeightsRequest>;

constexpr int64_t kChunkBytes = 512;

class BadUploadTest : public ::testing::Test {
 protected:
  BadUploadTest()
      : random_(FreshSeed()),
        client_(server_.NewClient()),
        upload_(MakeRandomUpload(Spec(), &random_)),
        good_(ToMessages(upload_, "layer", kChunkBytes)),
        bytes_before_(client_.Info().weights_bytes()) {}

  // Plain int4 with zeros and bias: several sections, several chunks of codes.
  static WeightsSpec Spec() {
    WeightsSpec spec;
    spec.format = WireFormat::kInt4;
    spec.n = 32;
    spec.k = 128;
    spec.group_size = 32;
    spec.has_zeros = true;
    spec.has_bias = true;
    return spec;
  }

  void ExpectRefused(const Messages& messages, grpc::StatusCode code,
                     const Matcher<std::string>& message) {
    const auto answer = client_.Load(messages);
    EXPECT_EQ(answer.status.error_code(), code);
    EXPECT_THAT(answer.status.error_message(), message);
    EXPECT_THAT(client_.List(), IsEmpty());
    EXPECT_EQ(client_.Info().weights_bytes(), bytes_before_);
    const auto after = client_.Load(good_);
    EXPECT_TRUE(after.ok()) << after.status.error_message();
    EXPECT_TRUE(client_.Unload("layer").ok());
  }

  void ExpectHeaderRefused(const v1::WeightsHeader& header,
                           const Matcher<std::string>& message) {
    Messages messages = good_;
    *messages[0].mutable_header() = header;
    ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT, message);
  }

  v1::WeightsHeader header() const { return good_[0].header(); }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
  const RandomUpload upload_;
  const Messages good_;
  const uint64_t bytes_before_;
};

TEST_F(BadUploadTest, NOrKOfZero) {
  v1::WeightsHeader bad = header();
  bad.set_n(0);
  ExpectHeaderRefused(bad, HasSubstr("n = 0"));
  bad = header();
  bad.set_k(0);
  ExpectHeaderRefused(bad, HasSubstr("k = 0"));
}

TEST_F(BadUploadTest, NOrKBeyondTheLimits) {
  const uint64_t limit = client_.Info().max_n();
  v1::WeightsHeader bad = header();
  bad.set_n(limit + 1);
  ExpectHeaderRefused(bad, AllOf(HasSubstr("n = " + std::to_string(limit + 1)),
                                 HasSubstr(std::to_string(limit))));
  bad = header();
  bad.set_k(client_.Info().max_k() + 1);
  ExpectHeaderRefused(bad, HasSubstr("k = "));
}

TEST_F(BadUploadTest, SizesAroundTheLargestInteger) {
  for (const uint64_t size :
       {(uint64_t{1} << 63) - 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    v1::WeightsHeader bad = header();
    bad.set_n(size);
    ExpectHeaderRefused(bad, HasSubstr("n = " + std::to_string(size)));
    bad = header();
    bad.set_k(size);
    ExpectHeaderRefused(bad, HasSubstr("k = " + std::to_string(size)));
    bad = header();
    bad.set_total_bytes(size);
    ExpectHeaderRefused(bad,
                        HasSubstr("total_bytes = " + std::to_string(size)));
  }
}

TEST_F(BadUploadTest, AByteCountThatTheShapeDoesNotHave) {
  v1::WeightsHeader bad = header();
  bad.set_total_bytes(bad.total_bytes() - 1);
  ExpectHeaderRefused(bad, HasSubstr("total_bytes"));
}

TEST_F(BadUploadTest, AKThatTheFormatDoesNotTake) {
  v1::WeightsHeader bad = header();
  bad.mutable_q4_0();
  bad.set_k(100);
  ExpectHeaderRefused(bad, AllOf(HasSubstr("k = 100"), HasSubstr("32")));
}

TEST_F(BadUploadTest, AGroupSizeThatDoesNotExist) {
  v1::WeightsHeader bad = header();
  bad.mutable_int4()->set_group_size(48);
  ExpectHeaderRefused(bad, HasSubstr("group_size = 48"));
}

TEST_F(BadUploadTest, AScaleTypeThatTheFormatDoesNotTake) {
  v1::WeightsHeader bad = header();
  bad.mutable_int4()->set_scale_type(v1::SCALE_TYPE_E4M4);
  ExpectHeaderRefused(bad, HasSubstr("scale_type"));
}

TEST_F(BadUploadTest, NoFormat) {
  v1::WeightsHeader bad = header();
  bad.clear_format();
  ExpectHeaderRefused(bad, HasSubstr("format"));
}

TEST_F(BadUploadTest, ANameThatIsNone) {
  for (const std::string& name :
       {std::string("white space"), std::string(129, 'a'),
        std::string(64, 'a')}) {
    v1::WeightsHeader bad = header();
    bad.set_name(name);
    ExpectHeaderRefused(bad, HasSubstr(name.substr(0, 64)));
  }
}

TEST_F(BadUploadTest, NoHeader) {
  ExpectRefused(Messages(good_.begin() + 1, good_.end()),
                grpc::StatusCode::INVALID_ARGUMENT, HasSubstr("header"));
}

TEST_F(BadUploadTest, NothingAtAll) {
  ExpectRefused({}, grpc::StatusCode::INVALID_ARGUMENT, HasSubstr("header"));
}

TEST_F(BadUploadTest, TwoHeaders) {
  Messages messages = good_;
  messages.insert(messages.begin() + 1, good_[0]);
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("second header"));
}

TEST_F(BadUploadTest, AnEmptyMessage) {
  Messages messages = good_;
  messages.insert(messages.begin() + 1, v1::LoadWeightsRequest());
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("neither header nor chunk"));
}

TEST_F(BadUploadTest, TheLastChunkMissing) {
  Messages messages = good_;
  messages.pop_back();
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("ended after"));
}

TEST_F(BadUploadTest, AByteMoreThanASectionHas) {
  Messages messages = good_;
  v1::WeightsChunk* const last = messages.back().mutable_chunk();
  SetChunkBytes(last->bytes() + "x", last);
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("only"));
}

TEST_F(BadUploadTest, AChunkThatOverlapsTheOneBefore) {
  Messages messages = good_;
  v1::WeightsChunk* const last = messages.back().mutable_chunk();
  last->set_offset(last->offset() - 1);
  ExpectRefused(messages, grpc::StatusCode::ABORTED,
                HasSubstr(std::to_string(last->offset())));
}

TEST_F(BadUploadTest, AChunkLeftOut) {
  Messages messages = good_;
  messages.erase(messages.end() - 2);
  ExpectRefused(messages, grpc::StatusCode::ABORTED, HasSubstr("expected"));
}

TEST_F(BadUploadTest, ChunksInAnotherOrder) {
  Messages messages = good_;
  std::swap(messages[messages.size() - 1], messages[messages.size() - 2]);
  ExpectRefused(messages, grpc::StatusCode::ABORTED, HasSubstr("expected"));
}

TEST_F(BadUploadTest, SectionsInAnotherOrder) {
  Messages messages = good_;
  std::swap(messages[1], messages.back());
  ExpectRefused(messages, grpc::StatusCode::ABORTED, HasSubstr("expected"));
}

TEST_F(BadUploadTest, AnOffsetAboveInt64) {
  Messages messages = good_;
  messages.back().mutable_chunk()->set_offset(uint64_t{1} << 63);
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("chunk.offset = 9223372036854775808"));
}

TEST_F(BadUploadTest, ASectionThatDoesNotExist) {
  Messages messages = good_;
  messages.back().mutable_chunk()->set_section(static_cast<v1::Section>(99));
  ExpectRefused(messages, grpc::StatusCode::INVALID_ARGUMENT,
                HasSubstr("chunk.section = 99"));
}

TEST_F(BadUploadTest, AFlippedBit) {
  Messages messages = good_;
  v1::WeightsChunk* const last = messages.back().mutable_chunk();
  const size_t byte = RandomInt(0, last->bytes().size() - 1, &random_);
  (*last->mutable_bytes())[byte] ^= 1 << RandomInt(0, 7, &random_);
  ExpectRefused(messages, grpc::StatusCode::DATA_LOSS, HasSubstr("crc32c"));
}

TEST_F(BadUploadTest, AnotherSha256) {
  Messages messages = good_;
  std::string id = IdOf(upload_);
  id[RandomInt(0, 31, &random_)] ^= 1;
  messages[0].mutable_header()->set_sha256(id);
  ExpectRefused(messages, grpc::StatusCode::DATA_LOSS, HasSubstr("sha256"));
}

TEST_F(BadUploadTest, ASha256OfAnotherLength) {
  v1::WeightsHeader bad = header();
  bad.set_sha256(IdOf(upload_).substr(1));
  ExpectHeaderRefused(bad, AllOf(HasSubstr("sha256"), HasSubstr("31")));
}

TEST_F(BadUploadTest, ACodeThatTheFormatLacks) {
  WeightsSpec spec;
  spec.format = WireFormat::kTernary;
  spec.n = 4;
  spec.k = 8;
  RandomUpload ternary = MakeRandomUpload(spec, &random_);
  ternary.sections.back().bytes[2 * 8 + 5] = 7;  // row 2, column 5
  ExpectRefused(ToMessages(ternary, "layer"),
                grpc::StatusCode::INVALID_ARGUMENT,
                AllOf(HasSubstr("row 2"), HasSubstr("column 5")));
}

}  // namespace
}  // namespace qgemm
