// SPDX-License-Identifier: Apache-2.0
//
// Files of layers, sound and damaged at every byte.

#include "server/storage/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "tests/server/storage/fault_files.h"
#include "tests/server/storage/random_layer.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr char kPath[] = "file";

class WeightsFileTest : public testing::Test {
 protected:
  void Write(const RandomLayer& layer) {
    auto writer =
        WeightsFileWriter::Create(*files_.CreateUnnamed("."), layer.spec);
    CHECK_OK(writer.status());
    absl::string_view left = layer.payload;
    while (!left.empty()) {
      const absl::string_view piece = left.substr(
          0, RandomInt(1, static_cast<int64_t>(left.size()), &random_));
      CHECK_OK(writer->Append(piece));
      left.remove_prefix(piece.size());
    }
    CHECK_OK(writer->Finish(layer.digest));
    CHECK_OK(files_.Publish(writer->file(), kPath));
  }

  absl::StatusOr<WeightsFileReader> Open() {
    return WeightsFileReader::Open(*files_.OpenToRead(kPath));
  }

  // Opens and reads the whole file.
  absl::Status Verify() {
    const absl::StatusOr<WeightsFileReader> reader = Open();
    return reader.ok() ? reader->Verify() : reader.status();
  }

  std::string& bytes() { return files_.Bytes(kPath); }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
};

TEST_F(WeightsFileTest, IsReadAsItWasWritten) {
  // It has several blocks, the last one short.
  const RandomLayer layer = MakeRandomLayer(700, 1100, &random_);
  ASSERT_GT(layer.payload.size(), kWeightsFileBlockBytes);
  Write(layer);
  EXPECT_EQ(bytes().size(), WeightsFileBytes(layer.spec));
  const auto reader = Open();
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().id, layer.digest);
  EXPECT_EQ(CanonicalText(reader->header().spec), CanonicalText(layer.spec));
  std::map<Section, std::string> sections;
  ASSERT_TRUE(reader
                  ->Read([&](Section section, absl::Span<const uint8_t> piece) {
                    sections[section].append(piece.begin(), piece.end());
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(sections[Section::kBias] + sections[Section::kCodes],
            layer.payload);
  EXPECT_EQ(sections[Section::kBias].size(), 700 * 4);
  EXPECT_TRUE(reader->Verify().ok());
}

TEST_F(WeightsFileTest, EveryFlippedBitIsFound) {
  const RandomLayer layer = MakeRandomLayer(3, 50, &random_);
  Write(layer);
  ASSERT_TRUE(Verify().ok());
  for (size_t i = 0; i < bytes().size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes()[i] ^= static_cast<char>(1 << bit);
      EXPECT_FALSE(Verify().ok()) << "bit " << bit << " of byte " << i;
      bytes()[i] ^= static_cast<char>(1 << bit);
    }
  }
  EXPECT_TRUE(Verify().ok());
}

TEST_F(WeightsFileTest, EveryOtherLengthIsFound) {
  Write(MakeRandomLayer(3, 50, &random_));
  const std::string whole = bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    bytes() = whole.substr(0, length);
    EXPECT_TRUE(absl::IsDataLoss(Verify())) << length;
  }
  bytes() = whole + '\0';
  EXPECT_TRUE(absl::IsDataLoss(Verify()));
}

// A header whose checksum is right and whose fields are not ours: it is as if
// somebody had written it.
TEST_F(WeightsFileTest, EveryOtherFieldIsRefused) {
  Write(MakeRandomLayer(3, 50, &random_));
  constexpr size_t kCrcOffset = 12;
  for (size_t i = 0; i < kWeightsFileHeaderBytes; ++i) {
    // The id is whatever it says; the checksum is set below.
    if ((i >= kCrcOffset && i < kCrcOffset + 4) || (i >= 16 && i < 48)) {
      continue;
    }
    std::string header = bytes().substr(0, kWeightsFileHeaderBytes);
    header[i] ^= static_cast<char>(RandomInt(1, 255, &random_));
    header.replace(kCrcOffset, 4, 4, '\0');
    const uint32_t crc = Crc32c(header);
    header.replace(kCrcOffset, 4, reinterpret_cast<const char*>(&crc), 4);
    const auto decoded = DecodeWeightsFileHeader(header);
    // n and k in the spec's text may make another header that is sound; the
    // section table then is not its own.
    EXPECT_FALSE(decoded.ok()) << "byte " << i;
  }
}

TEST_F(WeightsFileTest, ANewerVersionIsTold) {
  Write(MakeRandomLayer(3, 50, &random_));
  constexpr size_t kVersionOffset = 8;
  constexpr size_t kCrcOffset = 12;
  bytes()[kVersionOffset] = 2;
  std::string header = bytes().substr(0, kWeightsFileHeaderBytes);
  header.replace(kCrcOffset, 4, 4, '\0');
  const uint32_t crc = Crc32c(header);
  bytes().replace(kCrcOffset, 4, reinterpret_cast<const char*>(&crc), 4);
  const absl::Status status = Verify();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

TEST_F(WeightsFileTest, AnotherIdIsFoundByTheHash) {
  RandomLayer layer = MakeRandomLayer(3, 50, &random_);
  layer.digest[7] ^= 1;
  Write(layer);
  EXPECT_TRUE(Open().ok());
  EXPECT_TRUE(absl::IsDataLoss(Verify()));
}

TEST_F(WeightsFileTest, ADiskThatFailsIsTold) {
  const RandomLayer layer = MakeRandomLayer(3, 50, &random_);
  for (int changes = 0; changes < 5; ++changes) {
    std::unique_ptr<File> file = *files_.CreateUnnamed(".");
    files_.FailAfter(changes, absl::ResourceExhaustedError("disk full"));
    auto writer = WeightsFileWriter::Create(std::move(file), layer.spec);
    absl::Status status = writer.status();
    if (status.ok()) status = writer->Append(layer.payload);
    if (status.ok()) status = writer->Finish(layer.digest);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << changes;
    files_.FailAfter(0, absl::OkStatus());
  }
}

}  // namespace
}  // namespace qgemm
