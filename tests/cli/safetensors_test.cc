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

std::string ErrorOf(const std::string& file) {
  const auto tensors = ParseBytes(ParseSafetensors, file);
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

std::string OneTensor(const std::string& fields, size_t data_bytes) {
  return Safetensors("{\"w\":{" + fields + "}}", data_bytes);
}

TEST(SafetensorsTest, ReadsEveryFloatTypeByOffset) {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[24,36]},)"
      R"("a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},)"
      R"("c":{"dtype":"F16","shape":[1],"data_offsets":[36,38]}})";
  const auto tensors = ParseBytes(ParseSafetensors, Safetensors(json, 38));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  const int64_t data = 8 + json.size();
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].type, TensorType::kFloat32);
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(3, 2));
  EXPECT_EQ((*tensors)[0].offset, data);
  EXPECT_EQ((*tensors)[0].size_bytes, 24);
  EXPECT_EQ((*tensors)[1].type, TensorType::kBFloat16);
  EXPECT_EQ((*tensors)[1].offset, data + 24);
  EXPECT_EQ((*tensors)[2].type, TensorType::kFloat16);
}

TEST(SafetensorsTest, ListsTypesThatAreNotRead) {
  const auto tensors = ParseBytes(
      ParseSafetensors,
      OneTensor(R"("dtype":"I64","shape":[2],"data_offsets":[0,16])", 16));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].type_name, "I64");
  EXPECT_FALSE((*tensors)[0].type.has_value());
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string file =
      OneTensor(R"("dtype":"F32","shape":[2,2],"data_offsets":[0,16])", 16);
  ASSERT_TRUE(ParseBytes(ParseSafetensors, file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_FALSE(ParseBytes(ParseSafetensors, cut).ok()) << size;
  }
}

TEST(SafetensorsTest, RefusesAHeaderLongerThanTheFormatAllows) {
  EXPECT_THAT(ErrorOf(Raw<uint64_t>(100'000'001) + "{}"), HasSubstr("at most"));
  EXPECT_THAT(ErrorOf(Raw<uint64_t>(~uint64_t{0}) + "{}"),
              HasSubstr("at most"));
}

TEST(SafetensorsTest, RefusesAHeaderBeyondTheFile) {
  EXPECT_THAT(ErrorOf(Raw<uint64_t>(3) + "{}"), HasSubstr("truncated"));
}

TEST(SafetensorsTest, RefusesWhatIsNoJsonObject) {
  for (const char* json :
       {"", "{", "[]", "7", "\"w\"", "{\"w\":}", "\xff\xfe"}) {
    EXPECT_THAT(ErrorOf(Safetensors(json, 0)), HasSubstr("JSON")) << json;
  }
}

TEST(SafetensorsTest, RefusesDeepNesting) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(ErrorOf(Safetensors("{\"w\":" + deep, 0)), HasSubstr("deeper"));
}

TEST(SafetensorsTest, RefusesNamesGivenTwice) {
  const std::string tensor =
      R"("w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]})";
  EXPECT_THAT(ErrorOf(Safetensors("{" + tensor + "," + tensor + "}", 2)),
              HasSubstr("two tensors"));
}

TEST(SafetensorsTest, RefusesOverlap) {
  EXPECT_THAT(ErrorOf(Safetensors(
                  R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F16","shape":[4],"data_offsets":[6,14]}})",
                  14)),
              HasSubstr("overlap"));
}

TEST(SafetensorsTest, RefusesOffsetsThatDoNotFitTheShape) {
  EXPECT_THAT(ErrorOf(OneTensor(
                  R"("dtype":"F32","shape":[2,2],"data_offsets":[0,12])", 12)),
              HasSubstr("takes 16"));
}

TEST(SafetensorsTest, RefusesOffsetsOutOfOrder) {
  EXPECT_THAT(ErrorOf(OneTensor(
                  R"("dtype":"F32","shape":[1],"data_offsets":[8,4])", 8)),
              HasSubstr("begin <= end"));
}

TEST(SafetensorsTest, RefusesOffsetsBeyondTheFile) {
  EXPECT_THAT(ErrorOf(OneTensor(
                  R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 6)),
              HasSubstr("truncated"));
  EXPECT_FALSE(ErrorOf(OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":)"
                                 R"([9223372036854775803,9223372036854775807])",
                                 8))
                   .empty());
}

TEST(SafetensorsTest, RefusesNumbersThatAreNone) {
  for (const char* shape :
       {"[-1]", "[1.5]", "[1e3]", "[\"2\"]", "[null]", "[9223372036854775808]",
        "[99999999999999999999999]", "3", "{}"}) {
    EXPECT_THAT(
        ErrorOf(OneTensor(std::string(R"("dtype":"F32","data_offsets":[0,4],)"
                                      R"("shape":)") +
                              shape,
                          4)),
        HasSubstr("shape"))
        << shape;
  }
}

TEST(SafetensorsTest, RefusesAProductBeyond63Bits) {
  EXPECT_THAT(
      ErrorOf(OneTensor(R"("dtype":"F32","shape":[4294967296,4294967296],)"
                        R"("data_offsets":[0,0])",
                        0)),
      HasSubstr("2^63"));
}

TEST(SafetensorsTest, RefusesAnEmptyDimension) {
  EXPECT_THAT(ErrorOf(OneTensor(
                  R"("dtype":"F32","shape":[0,4],"data_offsets":[0,0])", 0)),
              HasSubstr("1 or more"));
}

TEST(SafetensorsTest, RefusesMissingFields) {
  EXPECT_THAT(ErrorOf(OneTensor(R"("shape":[1],"data_offsets":[0,4])", 4)),
              HasSubstr("dtype"));
  EXPECT_THAT(ErrorOf(OneTensor(R"("dtype":"F32","data_offsets":[0,4])", 4)),
              HasSubstr("shape"));
  EXPECT_THAT(ErrorOf(OneTensor(R"("dtype":"F32","shape":[1])", 4)),
              HasSubstr("data_offsets"));
  EXPECT_THAT(ErrorOf(Safetensors(R"({"w":3})", 4)), HasSubstr("dtype"));
}

}  // namespace
}  // namespace qgemm
