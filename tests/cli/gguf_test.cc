// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/tensor_files/tensor.h"
#include "tests/cli/tensor_bytes.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0, kF16 = 1, kQ40 = 2, kQ6K = 14, kBf16 = 30;
// Metadata value types.
constexpr uint32_t kUint32 = 4, kString = 8, kArray = 9;
constexpr uint64_t kHuge = uint64_t{1} << 63;

std::string ErrorOf(const std::string& file) {
  const auto tensors = ParseBytes(ParseGguf, file);
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

std::string OneTensor(const std::string& tensor, size_t data_bytes) {
  return GgufFile(GgufPreamble(1, 0) + tensor, data_bytes);
}

std::string OneMetadata(uint32_t type, const std::string& value) {
  return GgufFile(GgufPreamble(0, 1) + GgufString("key") + Raw(type) + value,
                  0);
}

TEST(GgufTest, ReadsEveryTypeWithShapesOutermostFirst) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = GgufFile(
        GgufPreamble(4, 0, version) + GgufTensor("q", {64, 3}, kQ40, 0) +
            GgufTensor("f", {2, 5}, kF32, 128) +
            GgufTensor("h", {4}, kF16, 192) + GgufTensor("b", {4}, kBf16, 224),
        232);
    const auto tensors = ParseBytes(ParseGguf, file);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    const int64_t data = file.size() - 232;
    ASSERT_EQ(tensors->size(), 4u);
    EXPECT_EQ((*tensors)[0].type, TensorType::kQ4_0);
    EXPECT_THAT((*tensors)[0].shape, ElementsAre(3, 64));
    EXPECT_EQ((*tensors)[0].size_bytes, 3 * 2 * 18);
    EXPECT_EQ((*tensors)[1].type, TensorType::kFloat32);
    EXPECT_EQ((*tensors)[1].offset, data + 128);
    EXPECT_EQ((*tensors)[2].type, TensorType::kFloat16);
    EXPECT_EQ((*tensors)[3].type, TensorType::kBFloat16);
  }
}

TEST(GgufTest, SkipsMetadataOfEveryType) {
  std::string header = GgufPreamble(1, 15);
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (uint32_t type = 0; type < 13; ++type) {
    header += GgufString("k" + std::to_string(type)) + Raw(type);
    if (type == kString) {
      header += GgufString("text");
    } else if (type == kArray) {
      header += Raw<uint32_t>(kString) + Raw<uint64_t>(2) + GgufString("x") +
                GgufString("yz");
    } else {
      header += std::string(kBytes[type], '\1');
    }
  }
  header += GgufString("numbers") + Raw(kArray) + Raw<uint32_t>(10) +
            Raw<uint64_t>(3) + std::string(24, '\2');
  header += GgufString("nested") + Raw(kArray) + Raw(kArray) +
            Raw<uint64_t>(1) + Raw<uint32_t>(0) + Raw<uint64_t>(5) + "12345";
  header += GgufTensor("w", {1, 1}, kF32, 0);
  const auto tensors = ParseBytes(ParseGguf, GgufFile(header, 4));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].name, "w");
}

TEST(GgufTest, HonoursGeneralAlignment) {
  std::string header = GgufPreamble(1, 1) + GgufString("general.alignment") +
                       Raw(kUint32) + Raw<uint32_t>(128) +
                       GgufTensor("w", {1, 1}, kF32, 128);
  header.resize((header.size() + 127) / 128 * 128);
  const std::string file = header + std::string(132, '\0');
  const auto tensors = ParseBytes(ParseGguf, file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].offset, static_cast<int64_t>(header.size()) + 128);
}

TEST(GgufTest, ListsTypesThatAreNotRead) {
  const auto tensors =
      ParseBytes(ParseGguf, OneTensor(GgufTensor("w", {256, 2}, kQ6K, 0), 420));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].type_name, "Q6_K");
  EXPECT_FALSE((*tensors)[0].type.has_value());
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string file =
      GgufFile(GgufPreamble(1, 1) + GgufString("key") + Raw(kString) +
                   GgufString("value") + GgufTensor("w", {32, 2}, kQ40, 0),
               36);
  ASSERT_TRUE(ParseBytes(ParseGguf, file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_FALSE(ParseBytes(ParseGguf, cut).ok()) << size;
  }
}

TEST(GgufTest, RefusesOtherMagicAndVersions) {
  EXPECT_THAT(ErrorOf("GGML" + std::string(28, '\0')), HasSubstr("GGUF"));
  EXPECT_THAT(ErrorOf(GgufPreamble(0, 0, 1)), HasSubstr("version is 1"));
  EXPECT_THAT(ErrorOf(GgufPreamble(0, 0, 0x03000000)), HasSubstr("version"));
}

TEST(GgufTest, RefusesCountsThatTheFileCannotHold) {
  EXPECT_THAT(ErrorOf(GgufPreamble(kHuge, 0)), HasSubstr("tensor count"));
  EXPECT_THAT(ErrorOf(GgufPreamble(0, kHuge)), HasSubstr("metadata count"));
  EXPECT_THAT(ErrorOf(GgufPreamble(1000, 0)), HasSubstr("tensor count"));
}

TEST(GgufTest, RefusesStringsLongerThanTheFile) {
  EXPECT_THAT(ErrorOf(OneMetadata(kString, Raw(kHuge))),
              HasSubstr("metadata string"));
  EXPECT_THAT(ErrorOf(OneMetadata(kString, Raw(~uint64_t{0}))),
              HasSubstr("metadata string"));
  EXPECT_THAT(ErrorOf(GgufPreamble(1, 0) + Raw(kHuge) + std::string(40, '\0')),
              HasSubstr("name"));
}

TEST(GgufTest, RefusesArraysLongerThanTheFile) {
  for (const uint32_t type : {0u, 10u, kString, kArray}) {
    for (const uint64_t count : {kHuge, ~uint64_t{0}, kHuge / 4}) {
      EXPECT_THAT(ErrorOf(OneMetadata(kArray, Raw(type) + Raw(count))),
                  HasSubstr("array's length"))
          << type << " " << count;
    }
  }
}

TEST(GgufTest, RefusesArraysNestedDeep) {
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += Raw(kArray) + Raw<uint64_t>(1);
  EXPECT_THAT(ErrorOf(OneMetadata(kArray, nested)), HasSubstr("deeper"));
}

TEST(GgufTest, RefusesUnknownMetadataTypes) {
  EXPECT_THAT(ErrorOf(OneMetadata(13, "")), HasSubstr("type 13"));
  EXPECT_THAT(ErrorOf(OneMetadata(~0u, "")), HasSubstr("type"));
}

TEST(GgufTest, RefusesAlignmentsThatAreNoPowerOfTwo) {
  for (const uint32_t alignment : {0u, 1u, 33u, 48u, 1u << 31}) {
    EXPECT_THAT(
        ErrorOf(GgufFile(GgufPreamble(0, 1) + GgufString("general.alignment") +
                             Raw(kUint32) + Raw(alignment),
                         0)),
        HasSubstr("general.alignment"))
        << alignment;
  }
}

TEST(GgufTest, RefusesMisalignedOffsets) {
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {8, 1}, kF32, 4), 64)),
              HasSubstr("alignment 32"));
}

TEST(GgufTest, RefusesOffsetsBeyondTheFile) {
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {8, 1}, kF32, 32), 32)),
              HasSubstr("truncated"));
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {8, 1}, kF32, kHuge), 32)),
              HasSubstr("2^63"));
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {8, 1}, kF32, kHuge - 32), 32)),
              HasSubstr("beyond the file"));
}

TEST(GgufTest, RefusesOverlap) {
  EXPECT_THAT(
      ErrorOf(GgufFile(GgufPreamble(2, 0) + GgufTensor("a", {9, 1}, kF32, 0) +
                           GgufTensor("b", {8, 1}, kF32, 32),
                       64)),
      HasSubstr("overlap"));
}

TEST(GgufTest, RefusesNamesGivenTwice) {
  EXPECT_THAT(
      ErrorOf(GgufFile(GgufPreamble(2, 0) + GgufTensor("a", {8, 1}, kF32, 0) +
                           GgufTensor("a", {8, 1}, kF32, 32),
                       64)),
      HasSubstr("two tensors"));
}

TEST(GgufTest, RefusesDimensionsOutOfRange) {
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {}, kF32, 0), 64)),
              HasSubstr("dimensions"));
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {1, 1, 1, 1, 1}, kF32, 0), 64)),
              HasSubstr("dimensions"));
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {0, 8}, kF32, 0), 64)),
              HasSubstr("1 or more"));
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {kHuge, 1}, kF32, 0), 64)),
              HasSubstr("2^63"));
  EXPECT_THAT(ErrorOf(OneTensor(
                  GgufTensor("w", {1ull << 32, 1ull << 32}, kF32, 0), 64)),
              HasSubstr("2^63"));
}

TEST(GgufTest, RefusesQ40RowsOfPartBlocks) {
  EXPECT_THAT(ErrorOf(OneTensor(GgufTensor("w", {33, 2}, kQ40, 0), 64)),
              HasSubstr("multiple of 32"));
}

// Long strings and arrays are passed over; what follows them is read from the
// file anew, and so is what lies across the end of a piece.
TEST(GgufTest, ReadsAFilePieceByPiece) {
  const std::string name(40'000, 'n');
  std::string file = GgufPreamble(3, 1) + GgufString("key") +
                     Raw<uint32_t>(kString) +
                     GgufString(std::string(99'999, 'v'));
  for (const char* tensor : {"a", "b", "c"}) {
    file += GgufTensor(name + tensor, {2, 1}, 0, (*tensor - 'a') * 32);
  }
  file = GgufFile(file, 3 * 32);
  ByteReader reader(static_cast<int64_t>(file.size()),
                    [&file](int64_t offset, absl::Span<uint8_t> buffer) {
                      file.copy(reinterpret_cast<char*>(buffer.data()),
                                buffer.size(), offset);
                      return absl::OkStatus();
                    });
  const auto tensors = ParseGguf(&reader);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->back().name, name + "c");
  EXPECT_EQ(tensors->back().offset, tensors->front().offset + 64);
}

TEST(GgufTest, AReadThatFailsIsTheParsersError) {
  ByteReader reader(100, [](int64_t, absl::Span<uint8_t>) {
    return absl::FailedPreconditionError("gone");
  });
  EXPECT_EQ(ParseGguf(&reader).status(), absl::FailedPreconditionError("gone"));
}

TEST(GgufTest, BoundsNames) {
  const auto tensors = ParseBytes(
      ParseGguf,
      GgufFile(GgufPreamble(1, 0) +
                   GgufTensor(std::string(65'536, 'n'), {2, 1}, 0, 0),
               8));
  EXPECT_THAT(std::string(tensors.status().message()),
              HasSubstr("65536 bytes; at most 65535"));
}

}  // namespace
}  // namespace qgemm
