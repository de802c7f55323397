// SPDX-License-Identifier: Apache-2.0
//
// Messages become specs and signatures without loss, or are refused by name.

#include "server/rpc/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr WeightsLimits kLimits = {/*max_n=*/4096, /*max_k=*/8192};

v1::WeightsHeader Header() {
  v1::WeightsHeader header;
  header.set_name("layer.0");
  header.set_n(64);
  header.set_k(128);
  header.set_total_bytes(1000);
  return header;
}

WeightsSpec SpecOf(const v1::WeightsHeader& header) {
  const auto upload = ToUploadHeader(header, kLimits);
  EXPECT_TRUE(upload.ok()) << upload.status();
  return upload.ok() ? upload->spec : WeightsSpec();
}

void ExpectRefused(const absl::Status& status, const std::string& field,
                   const std::string& value) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(field), HasSubstr(value)));
}

TEST(ToUploadHeader, KeepsWhatEveryFormatHas) {
  v1::WeightsHeader header = Header();
  header.mutable_q4_0();
  header.set_has_bias(true);
  header.set_sha256(std::string(32, '\x5a'));

  const auto upload = ToUploadHeader(header, kLimits);

  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_EQ(upload->binding.name, "layer.0");
  EXPECT_EQ(upload->spec.format, WireFormat::kQ4_0);
  EXPECT_EQ(upload->spec.n, 64);
  EXPECT_EQ(upload->spec.k, 128);
  EXPECT_TRUE(upload->spec.has_bias);
  EXPECT_EQ(upload->total_bytes, 1000);
  ASSERT_TRUE(upload->expected_id.has_value());
  EXPECT_EQ(upload->expected_id->front(), 0x5a);
}

TEST(ToUploadHeader, GivesEveryFormatASpecThatIsLegalByDefault) {
  v1::WeightsHeader kbit = Header(), q4_0 = Header(), ternary = Header(),
                    int4 = Header(), dense = Header();
  kbit.mutable_kbit()->set_bits(4);
  q4_0.mutable_q4_0();
  ternary.mutable_ternary();
  int4.mutable_int4();
  dense.mutable_dense()->set_type(v1::FLOAT_TYPE_FP32);
  for (const v1::WeightsHeader& header : {kbit, q4_0, ternary, int4, dense}) {
    EXPECT_TRUE(Validate(SpecOf(header), kLimits).ok()) << header.DebugString();
  }
}

TEST(ToUploadHeader, GivesEveryQuantizationASpecThatIsLegalByDefault) {
  v1::WeightsHeader kbit = Header(), q4_0 = Header(), ternary = Header(),
                    int4 = Header();
  kbit.mutable_dense()->mutable_quantize_kbit()->set_bits(3);
  q4_0.mutable_dense()->mutable_quantize_q4_0();
  ternary.mutable_dense()->mutable_quantize_ternary();
  int4.mutable_dense()->mutable_quantize_int4()->set_group_size(64);
  for (v1::WeightsHeader header : {kbit, q4_0, ternary, int4}) {
    header.mutable_dense()->set_type(v1::FLOAT_TYPE_BF16);
    EXPECT_TRUE(Validate(SpecOf(header), kLimits).ok()) << header.DebugString();
  }
}

TEST(ToUploadHeader, KeepsKbitFields) {
  v1::WeightsHeader header = Header();
  v1::KbitFormat* const kbit = header.mutable_kbit();
  kbit->set_bits(5);
  kbit->set_layout(v1::KbitFormat::LAYOUT_TILED);
  kbit->set_absmax_type(v1::SCALE_TYPE_FP32);
  kbit->set_has_codebook(true);
  const WeightsSpec spec = SpecOf(header);
  EXPECT_EQ(spec.bits, 5);
  EXPECT_EQ(spec.kbit_layout, KbitLayout::kTiled);
  EXPECT_EQ(spec.scale_type, ScaleType::kFloat32);
  EXPECT_TRUE(spec.has_codebook);
}

TEST(ToUploadHeader, KeepsInt4Fields) {
  v1::WeightsHeader header = Header();
  v1::Int4Format* const int4 = header.mutable_int4();
  int4->set_layout(v1::Int4Format::LAYOUT_GPTQ_V2);
  int4->set_group_size(32);
  int4->set_scale_type(v1::SCALE_TYPE_BF16);
  int4->set_has_group_index(true);
  const WeightsSpec spec = SpecOf(header);
  EXPECT_EQ(spec.int4_layout, Int4Layout::kGptqV2);
  EXPECT_EQ(spec.group_size, 32);
  EXPECT_EQ(spec.scale_type, ScaleType::kBFloat16);
  EXPECT_TRUE(spec.has_group_index);
}

TEST(ToUploadHeader, KeepsTernaryFields) {
  v1::WeightsHeader header = Header();
  header.mutable_ternary()->set_coding(v1::TernaryFormat::CODING_PACKED_123);
  header.mutable_ternary()->set_tensor_wide_scale(true);
  const WeightsSpec spec = SpecOf(header);
  EXPECT_EQ(spec.ternary_coding, TernaryCoding::kPacked123);
  EXPECT_TRUE(spec.tensor_wide_scale);
}

TEST(ToUploadHeader, KeepsFp32AsBf16UnlessToldOtherwise) {
  v1::WeightsHeader header = Header();
  header.mutable_dense()->set_type(v1::FLOAT_TYPE_FP32);
  EXPECT_EQ(SpecOf(header).resident_type, FloatType::kBFloat16);
  header.mutable_dense()->set_resident_type(v1::FLOAT_TYPE_FP16);
  EXPECT_EQ(SpecOf(header).resident_type, FloatType::kFloat16);
}

TEST(ToUploadHeader, RefusesShapesBeyondTheLimits) {
  v1::WeightsHeader header = Header();
  header.mutable_q4_0();
  header.set_n(4097);
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "n = 4097", "4096");
  header.set_n(64);
  header.set_k(uint64_t{1} << 63);
  ExpectRefused(ToUploadHeader(header, kLimits).status(),
                "k = 9223372036854775808", "8192");
}

TEST(ToUploadHeader, RefusesByteCountsAboveInt64) {
  v1::WeightsHeader header = Header();
  header.mutable_q4_0();
  header.set_total_bytes(~uint64_t{0});
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "total_bytes",
                "18446744073709551615");
}

TEST(ToUploadHeader, RefusesAHeaderWithoutAFormat) {
  ExpectRefused(ToUploadHeader(Header(), kLimits).status(), "format",
                "not set");
}

TEST(ToUploadHeader, RefusesAnIdOfTheWrongLength) {
  v1::WeightsHeader header = Header();
  header.mutable_q4_0();
  header.set_sha256("abc");
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "sha256", "3 bytes");
}

TEST(ToUploadHeader, RefusesBitsThatDoNotExist) {
  v1::WeightsHeader header = Header();
  header.mutable_kbit()->set_bits(6);
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "kbit.bits", "6");
}

TEST(ToUploadHeader, RefusesEnumValuesThatDoNotExist) {
  v1::WeightsHeader header = Header();
  header.mutable_kbit()->set_bits(4);
  header.mutable_kbit()->set_absmax_type(static_cast<v1::ScaleType>(17));
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "kbit.absmax_type",
                "17");
  header.mutable_int4()->set_layout(static_cast<v1::Int4Format::Layout>(18));
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "int4.layout", "18");
  header.mutable_dense()->set_type(static_cast<v1::FloatType>(19));
  ExpectRefused(ToUploadHeader(header, kLimits).status(), "dense.type", "19");
}

TEST(ToUploadHeader, RefusesLayoutsOfQuantizations) {
  v1::WeightsHeader header = Header();
  v1::DenseFormat* const dense = header.mutable_dense();
  dense->set_type(v1::FLOAT_TYPE_FP32);
  dense->mutable_quantize_kbit()->set_bits(4);
  dense->mutable_quantize_kbit()->set_layout(v1::KbitFormat::LAYOUT_FLAT);
  ExpectRefused(ToUploadHeader(header, kLimits).status(),
                "dense.quantize_kbit.layout", "is set");
}

TEST(ToUploadChunk, RefusesOffsetsAboveInt64) {
  v1::WeightsChunk chunk;
  chunk.set_section(v1::SECTION_CODES);
  chunk.set_offset(uint64_t{1} << 63);
  ExpectRefused(ToUploadChunk(chunk).status(), "chunk.offset",
                "9223372036854775808");
}

TEST(ToUploadChunk, RefusesAChunkWithoutASection) {
  ExpectRefused(ToUploadChunk(v1::WeightsChunk()).status(), "chunk.section",
                "0");
}

TEST(ToUploadChunk, BorrowsItsBytes) {
  v1::WeightsChunk chunk;
  chunk.set_section(v1::SECTION_BIAS);
  chunk.set_offset(8);
  chunk.set_crc32c(0xdeadbeef);
  chunk.set_bytes("abcd");
  const auto upload = ToUploadChunk(chunk);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_EQ(upload->section, Section::kBias);
  EXPECT_EQ(upload->offset, 8);
  EXPECT_EQ(upload->crc32c, 0xdeadbeef);
  EXPECT_EQ(upload->bytes.data(), chunk.bytes().data());
}

TEST(ToSignature, AnswersInTheTypeOfTheActivationsByDefault) {
  v1::GemmRequest request;
  request.set_a_type(v1::FLOAT_TYPE_BF16);
  const auto signature = ToSignature(request);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->c_type, FloatType::kBFloat16);
  EXPECT_EQ(signature->mode, ComputeMode::kA16);
}

TEST(ToSignature, RefusesActivationsWithoutAType) {
  ExpectRefused(ToSignature(v1::GemmRequest()).status(), "a_type", "not set");
}

TEST(ToSignature, RefusesTypesAndModesThatDoNotExist) {
  v1::GemmRequest request;
  request.set_a_type(static_cast<v1::FloatType>(9));
  ExpectRefused(ToSignature(request).status(), "a_type", "9");
  request.set_a_type(v1::FLOAT_TYPE_FP32);
  request.set_mode(static_cast<v1::ComputeMode>(8));
  ExpectRefused(ToSignature(request).status(), "mode", "8");
}

TEST(ToSignature, TakesARoundingOnlyWhereItApplies) {
  v1::GemmRequest request;
  request.set_a_type(v1::FLOAT_TYPE_FP32);
  request.set_rounding(v1::FLOAT_TYPE_FP16);
  const auto signature = ToSignature(request);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->rounding, FloatType::kFloat16);

  request.set_a_type(v1::FLOAT_TYPE_FP16);
  ExpectRefused(ToSignature(request).status(), "rounding", "fp16");
}

TEST(ToPriority, IsNormalByDefault) {
  EXPECT_EQ(*ToPriority(v1::PRIORITY_UNSPECIFIED), Priority::kNormal);
  EXPECT_EQ(*ToPriority(v1::PRIORITY_LOW), Priority::kLow);
  EXPECT_EQ(*ToPriority(v1::PRIORITY_NORMAL), Priority::kNormal);
  EXPECT_EQ(*ToPriority(v1::PRIORITY_HIGH), Priority::kHigh);
}

TEST(ToPriority, RefusesWhatDoesNotExist) {
  ExpectRefused(ToPriority(static_cast<v1::Priority>(7)).status(), "priority",
                "7");
}

TEST(CheckClientId, TakesNamesAndNoName) {
  EXPECT_EQ(CheckClientId(""), absl::OkStatus());
  EXPECT_EQ(CheckClientId("Frontend-7/user_1.2"), absl::OkStatus());
  EXPECT_EQ(CheckClientId(std::string(128, 'x')), absl::OkStatus());
}

TEST(CheckClientId, RefusesOtherCharactersAndLengths) {
  ExpectRefused(CheckClientId("a b"), "client_id", "a b");
  ExpectRefused(CheckClientId(std::string("a\0/", 3)), "client_id", "a\\x00/");
  ExpectRefused(CheckClientId(std::string(129, 'x')), "client_id", "129");
}

TEST(ToUploadHeader, LeavesAbsentTotalBytesUnset) {
  v1::WeightsHeader header = Header();
  header.mutable_q4_0();
  header.clear_total_bytes();
  const auto upload = ToUploadHeader(header, kLimits);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_FALSE(upload->total_bytes.has_value());
}

TEST(ToUploadChunk, LeavesAnAbsentChecksumUnset) {
  v1::WeightsChunk chunk;
  chunk.set_section(v1::SECTION_CODES);
  auto upload = ToUploadChunk(chunk);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_FALSE(upload->crc32c.has_value());
  chunk.set_crc32c(0);
  upload = ToUploadChunk(chunk);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_EQ(upload->crc32c, 0u);
}

constexpr uint64_t kMostUint64 = std::numeric_limits<uint64_t>::max();

TEST(OperandBytes, AreThoseThatCameUnlessTheMessageSaysMore) {
  v1::GemmStreamOpen open;
  EXPECT_EQ(OperandBytes(open, 100), 100u);
  open.set_a_bytes(kMostUint64);
  EXPECT_EQ(OperandBytes(open, 100), kMostUint64);
}

TEST(CheckStreamOpen, NamesWhatIsWrong) {
  v1::GemmStreamOpen open;
  ExpectRefused(CheckStreamOpen(open, 10, 100), "open.gemm", "open.run");
  open.mutable_gemm()->set_m(1);
  EXPECT_TRUE(CheckStreamOpen(open, 10, 100).ok());
  open.set_a_bytes(9);
  ExpectRefused(CheckStreamOpen(open, 10, 100), "a has 10", "a_bytes = 9");
  open.set_a_bytes(100);
  EXPECT_TRUE(CheckStreamOpen(open, 10, 100).ok());
  open.set_c_fragment_bytes(4095);
  ExpectRefused(CheckStreamOpen(open, 10, 100), "c_fragment_bytes = 4095",
                "4096");
  open.set_c_fragment_bytes(4096);
  open.mutable_gemm()->set_a("a");
  ExpectRefused(CheckStreamOpen(open, 10, 100), "open.gemm.a", "1 bytes");
  open.mutable_gemm()->clear_a();
  open.set_a_bytes(101);
  const absl::Status status = CheckStreamOpen(open, 10, 100);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), AllOf(HasSubstr("101"), HasSubstr("100"),
                                      HasSubstr("--max_stream_operand_bytes")));
}

TEST(DeadlineAfter, IsNeverForATimeoutOfZeroOrOfAges) {
  const absl::Time arrival = absl::UnixEpoch();
  EXPECT_EQ(DeadlineAfter(arrival, 0), absl::InfiniteFuture());
  EXPECT_EQ(DeadlineAfter(arrival, 250), arrival + absl::Nanoseconds(250));
  EXPECT_GT(DeadlineAfter(arrival, kMostUint64),
            arrival + absl::Hours(1 << 20));
}

TEST(RetryDelayFor, IsAboveZeroForExhaustedAndOnlyThen) {
  EXPECT_GT(RetryDelayFor(absl::ResourceExhaustedError("full")),
            absl::ZeroDuration());
  EXPECT_EQ(RetryDelayFor(absl::InvalidArgumentError("wrong")),
            absl::ZeroDuration());
}

}  // namespace
}  // namespace qgemm
