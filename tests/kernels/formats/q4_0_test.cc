// SPDX-License-Identifier: Apache-2.0

#include "kernels/formats/q4_0.h"

#include <string>
#include <vector>

#include "base/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(Q4_0Decoder, FollowsTheFormula) {
  FreshRandom random;
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 96;
  Upload upload = RandomUpload(Q4_0Spec(kRows, kColumns), &random);
  const auto decoded = upload.Decode();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const uint8_t* block =
          &upload[Section::kCodes][(row * 3 + column / 32) * 18];
      uint16_t d;
      std::memcpy(&d, block, 2);
      const int j = column % 32;
      const int q = j < 16 ? block[2 + j] % 16 : block[2 + j - 16] / 16;
      ASSERT_EQ(decoded->weights.Weight(row, column),
                (q - 8) * double{Float16ToFloat(d)});
    }
  }
}

TEST(Q4_0Decoder, OffersIntegerModes) {
  const WeightsHeader header = HeaderOf(Q4_0Spec(1, 32));
  EXPECT_TRUE(header.supports_a8);
  EXPECT_TRUE(header.integer_codes);
}

TEST(Q4_0Decoder, IllegalScaleNamesRowAndBlock) {
  for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e01}) {
    Upload upload(Q4_0Spec(3, 64));
    std::memcpy(&upload[Section::kCodes][(2 * 2 + 1) * 18], &bad, 2);
    const absl::Status status = upload.Decode().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("row 2, block 1"));
  }
}

}  // namespace
}  // namespace qgemm
