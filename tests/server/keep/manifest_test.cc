// SPDX-License-Identifier: Apache-2.0
//
// Records are read from a manifest as they were written, or not at all.

#include "server/keep/manifest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "base/crc32c.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

ManifestHeader Header() {
  ManifestHeader header;
  header.device.uuid = {1, 2, 3};
  header.device.driver_version = 12080;
  header.layout_key = {4, 5, 6};
  return header;
}

ManifestRecord Record() {
  ManifestRecord record;
  record.id = std::string(64, 'a');
  record.spec = "format = q4_0\n";
  record.layer.chunk = 7;
  record.layer.offset_bytes = 512;
  record.layer.size_bytes = 12345;
  record.layer.checksum = 0x123456789abcdef0;
  record.layer.detail = std::string("\0detail\xff", 8);
  return record;
}

// As ManifestMemory::Write makes it.
std::string Valid(std::string slot) {
  std::memcpy(slot.data(), &kValidRecord, sizeof(kValidRecord));
  return slot;
}

TEST(ManifestTest, ARecordIsReadAsItWasWritten) {
  const ManifestRecord record = Record();
  const auto slot = EncodeManifestRecord(record);
  ASSERT_TRUE(slot.has_value());
  EXPECT_EQ(slot->size(), kManifestSlotBytes);
  EXPECT_FALSE(DecodeManifestRecord(*slot).has_value()) << "counts too early";
  const auto read = DecodeManifestRecord(Valid(*slot));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->id, record.id);
  EXPECT_EQ(read->spec, record.spec);
  EXPECT_EQ(read->layer.chunk, record.layer.chunk);
  EXPECT_EQ(read->layer.offset_bytes, record.layer.offset_bytes);
  EXPECT_EQ(read->layer.size_bytes, record.layer.size_bytes);
  EXPECT_EQ(read->layer.checksum, record.layer.checksum);
  EXPECT_EQ(read->layer.detail, record.layer.detail);
}

TEST(ManifestTest, ARecordThatDoesNotFitIsNotMade) {
  ManifestRecord record = Record();
  record.layer.detail.assign(kManifestSlotBytes, 'x');
  EXPECT_FALSE(EncodeManifestRecord(record).has_value());
}

TEST(ManifestTest, NoRecordWithAFlippedBitCounts) {
  const std::string slot = Valid(*EncodeManifestRecord(Record()));
  for (size_t bit = 0; bit < slot.size() * 8; ++bit) {
    std::string flipped = slot;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_FALSE(DecodeManifestRecord(flipped).has_value()) << bit;
  }
}

TEST(ManifestTest, NoOtherBytesAreARecord) {
  RandomGenerator random(FreshSeed());
  const std::string slot = Valid(*EncodeManifestRecord(Record()));
  EXPECT_FALSE(DecodeManifestRecord("").has_value());
  EXPECT_FALSE(DecodeManifestRecord(slot.substr(1)).has_value());
  for (int i = 0; i < 2000; ++i) {
    std::string other = slot;
    const int64_t begin = RandomInt(0, kManifestSlotBytes - 1, &random);
    const int64_t end = RandomInt(begin + 1, kManifestSlotBytes, &random);
    for (int64_t at = begin; at < end; ++at) {
      other[at] = static_cast<char>(random());
    }
    if (other == slot) continue;
    EXPECT_FALSE(DecodeManifestRecord(other).has_value());
  }
}

TEST(ManifestTest, FieldsOfAnySizeAreReadWithinTheSlot) {
  RandomGenerator random(FreshSeed());
  constexpr size_t kFields = 12;
  for (int i = 0; i < 5000; ++i) {
    std::string slot = Valid(*EncodeManifestRecord(Record()));
    for (int64_t change = RandomInt(1, 8, &random); change > 0; --change) {
      slot[RandomInt(kFields, 200, &random)] = static_cast<char>(random());
    }
    // The checksum that it should have, so that fields are reached.
    const uint32_t crc = Crc32c(absl::string_view(slot).substr(kFields));
    std::memcpy(slot.data() + sizeof(kValidRecord), &crc, sizeof(crc));
    const auto read = DecodeManifestRecord(slot);
    if (!read.has_value()) continue;
    EXPECT_EQ(Valid(*EncodeManifestRecord(*read)), slot);
  }
}

TEST(ManifestTest, OnlyTheSameHeaderIsTaken) {
  const ManifestHeader header = Header();
  const std::string slot = EncodeManifestHeader(header);
  EXPECT_EQ(slot.size(), kManifestSlotBytes);
  EXPECT_EQ(DifferenceOf(slot, header), "");
  for (size_t bit = 0; bit < slot.size() * 8; ++bit) {
    std::string flipped = slot;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(DifferenceOf(flipped, header), "") << bit;
  }
  EXPECT_NE(DifferenceOf("", header), "");
}

TEST(ManifestTest, SaysWhatDiffers) {
  const std::string slot = EncodeManifestHeader(Header());
  ManifestHeader other = Header();
  other.device.uuid[15] = 1;
  EXPECT_EQ(DifferenceOf(slot, other), "device");
  other = Header();
  other.device.driver_version = 12090;
  EXPECT_EQ(DifferenceOf(slot, other), "driver");
  other = Header();
  other.layout_key[31] = 1;
  EXPECT_EQ(DifferenceOf(slot, other), "layout of layers");
  std::string newer = slot;
  newer[8] = 2;
  EXPECT_EQ(DifferenceOf(newer, Header()), "version");
}

}  // namespace
}  // namespace qgemm
