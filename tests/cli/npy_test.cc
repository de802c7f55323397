// SPDX-License-Identifier: Apache-2.0

#include "cli/tensor_files/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/tensor_bytes.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Header(const std::string& descr, const std::string& order,
                   const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }      \n";
}

std::string ErrorOf(const std::string& file) {
  const auto tensor = ParseBytes(ParseNpy, file);
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensor.status().message());
}

TEST(NpyTest, ReadsEveryVersion) {
  for (const uint8_t major : {1, 2, 3}) {
    const std::string file = Npy(major, Header("<f4", "False", "(2, 3)"), 24);
    const auto tensor = ParseBytes(ParseNpy, file);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->type, TensorType::kFloat32);
    EXPECT_THAT(tensor->shape, ElementsAre(2, 3));
    EXPECT_EQ(tensor->offset, static_cast<int64_t>(file.size()) - 24);
    EXPECT_EQ(tensor->size_bytes, 24);
  }
}

TEST(NpyTest, ReadsHalfPrecision) {
  const auto tensor =
      ParseBytes(ParseNpy, Npy(1, Header("<f2", "False", "(2, 3)"), 12));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->type, TensorType::kFloat16);
}

TEST(NpyTest, ReadsTheHeaderThatItWrites) {
  for (const auto type : {TensorType::kFloat32, TensorType::kFloat16}) {
    const bool is_fp32 = type == TensorType::kFloat32;
    const std::string descr = is_fp32 ? "<f4" : "<f2";
    EXPECT_EQ(NpyHeader(descr, 123456789, 3).size() % 64, 0u);
    const int64_t bytes = is_fp32 ? 4 : 2;
    const auto tensor = ParseBytes(
        ParseNpy, NpyHeader(descr, 5, 3) + std::string(5 * 3 * bytes, '\0'));
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->type, type);
    EXPECT_THAT(tensor->shape, ElementsAre(5, 3));
  }
}

TEST(NpyTest, EveryTruncationIsAnError) {
  const std::string file = Npy(2, Header("<f4", "False", "(2, 3)"), 24);
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_FALSE(ParseBytes(ParseNpy, cut).ok()) << size;
  }
}

TEST(NpyTest, RefusesBytesBeyondTheData) {
  EXPECT_THAT(ErrorOf(Npy(1, Header("<f4", "False", "(2, 3)"), 25)),
              HasSubstr("25 bytes"));
}

TEST(NpyTest, RefusesFortranOrder) {
  EXPECT_THAT(ErrorOf(Npy(1, Header("<f4", "True", "(2, 3)"), 24)),
              HasSubstr("Fortran"));
}

TEST(NpyTest, RefusesOtherElementTypes) {
  for (const char* descr : {"<f8", ">f4", "|u1", "<i4", "|O", ""}) {
    EXPECT_THAT(ErrorOf(Npy(1, Header(descr, "False", "(2, 3)"), 24)),
                HasSubstr("element type"))
        << descr;
  }
}

TEST(NpyTest, RefusesWhatIsNoMatrix) {
  for (const char* shape : {"()", "(6,)", "(1, 2, 3)"}) {
    EXPECT_THAT(ErrorOf(Npy(1, Header("<f4", "False", shape), 24)),
                HasSubstr("matrix"))
        << shape;
  }
}

TEST(NpyTest, RefusesShapesOutOfRange) {
  for (const char* shape :
       {"(0, 3)", "(9223372036854775808, 1)", "(4294967296, 4294967296)",
        "(-1, 3)", "(2.0, 3)", "(a, b)", "(2 3)", "(2, 3"}) {
    EXPECT_FALSE(ErrorOf(Npy(1, Header("<f4", "False", shape), 24)).empty())
        << shape;
  }
}

TEST(NpyTest, RefusesMalformedHeaders) {
  for (const char* header :
       {"", "{", "[]", "{}", "{'descr': '<f4'}", "{'descr': <f4}",
        "{'descr': '<f4', 'descr': '<f4'}", "{'other': '<f4'}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} more",
        "__import__('os')"}) {
    EXPECT_FALSE(ErrorOf(Npy(1, header, 24)).empty()) << header;
  }
}

TEST(NpyTest, RefusesHeadersLongerThanNumpyReads) {
  EXPECT_THAT(ErrorOf(std::string("\x93NUMPY") + '\2' + '\0' + Raw(~0u)),
              HasSubstr("at most"));
}

TEST(NpyTest, RefusesOtherMagicAndVersions) {
  EXPECT_THAT(ErrorOf("\x93NUMPX\1" + std::string(20, '\0')),
              HasSubstr("NUMPY"));
  EXPECT_THAT(ErrorOf(Npy(4, "{}", 0)), HasSubstr("version is 4"));
}

}  // namespace
}  // namespace qgemm
