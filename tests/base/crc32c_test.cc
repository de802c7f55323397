// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C against published vectors and a bit-by-bit division.

#include "base/crc32c.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// One bit at a time, from the polynomial alone.
uint32_t SlowCrc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t feedback = (crc ^ static_cast<uint8_t>(byte) >> bit) & 1u;
      crc = crc >> 1 ^ (feedback != 0 ? 0x82f63b78u : 0u);
    }
  }
  return ~crc;
}

TEST(Crc32cTest, MatchesTheCheckValue) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

// RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesTheVectorsOfIscsi) {
  std::string ascending;
  std::string descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
}

TEST(Crc32cTest, OfNothingIsZero) { EXPECT_EQ(Crc32c(""), 0u); }

TEST(Crc32cTest, AgreesWithBitwiseDivisionAtEveryLengthAndAlignment) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::string buffer(80, '\0');
  for (char& byte : buffer) byte = static_cast<char>(random());
  const absl::string_view bytes = buffer;
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t length = 0; length <= 72; ++length) {
      const absl::string_view part = bytes.substr(begin, length);
      ASSERT_EQ(Crc32c(part), SlowCrc32c(part))
          << "begin " << begin << ", length " << length;
    }
  }
}

TEST(Crc32cTest, ExtensionsOverAnySplitGiveTheCrcOfTheWhole) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::string buffer(60, '\0');
  for (char& byte : buffer) byte = static_cast<char>(random());
  const absl::string_view bytes = buffer;
  const uint32_t whole = Crc32c(bytes);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    const uint32_t beginning = ExtendCrc32c(0, bytes.substr(0, first));
    ASSERT_EQ(beginning, Crc32c(bytes.substr(0, first)));
    for (size_t second = first; second <= bytes.size(); ++second) {
      const uint32_t middle =
          ExtendCrc32c(beginning, bytes.substr(first, second - first));
      ASSERT_EQ(ExtendCrc32c(middle, bytes.substr(second)), whole)
          << "split at " << first << " and " << second;
    }
  }
}

TEST(Crc32cTest, NoticesEverySingleBitFlip) {
  std::string bytes(33, '\x5a');
  const uint32_t intact = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    ASSERT_NE(Crc32c(bytes), intact) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
}

}  // namespace
}  // namespace qgemm
