// SPDX-License-Identifier: Apache-2.0
//
// Images on a disk that fails, loses power and changes bits: one is read as it
// was written, or it is gone.

#include "server/storage/image_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/check.h"
#include "base/memory_checksum.h"
#include "tests/server/storage/fault_files.h"

namespace qgemm {
namespace {

Sha256Digest KeyOf(const std::string& text) {
  Sha256 hash;
  hash.Update(text);
  return hash.Finish();
}

std::string IdOf(int i) { return ToHex(KeyOf(std::to_string(i))); }

class ImageFilesTest : public testing::Test {
 protected:
  // Files of the key; layers 0 to 9 are held.
  std::unique_ptr<ImageFiles> Open(int64_t max_bytes = int64_t{1} << 30,
                                   const std::string& key = "key") {
    auto images = ImageFiles::Open(
        &files_, {max_bytes, KeyOf(key)},
        [this](const std::string& id) { return held_.count(id) != 0; });
    CHECK_OK(images.status());
    return *std::move(images);
  }

  std::vector<uint8_t> NewBytes(int64_t size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  static absl::Status Write(const std::string& id,
                            const std::vector<uint8_t>& bytes,
                            ImageFiles* images) {
    const auto size = static_cast<int64_t>(bytes.size());
    return images->Write(
        id, {size, MemoryChecksum(bytes.data(), size), "detail"},
        [&bytes](int64_t offset, absl::Span<uint8_t> to) {
          std::copy_n(bytes.begin() + offset, to.size(), to.begin());
          return absl::OkStatus();
        });
  }

  // The bytes of an image whose checksum is right; empty if there is none such.
  static std::vector<uint8_t> Read(const std::string& id,
                                   const ImageFiles& images) {
    const auto reader = images.Read(id);
    if (!reader.ok()) return {};
    const LayerImage& image = reader->image();
    EXPECT_EQ(image.detail, "detail");
    std::vector<uint8_t> bytes(image.size_bytes);
    if (!reader->ReadAt(0, absl::MakeSpan(bytes)).ok() ||
        MemoryChecksum(bytes.data(), image.size_bytes) != image.checksum) {
      return {};
    }
    return bytes;
  }

  RandomGenerator random_{FreshSeed()};
  FaultFiles files_{&random_};
  std::set<std::string> held_ = {IdOf(0), IdOf(1), IdOf(2)};
};

TEST_F(ImageFilesTest, AnImageIsThereAfterAStart) {
  const std::vector<uint8_t> bytes = NewBytes(2'500'000);
  {
    const auto images = Open();
    ASSERT_TRUE(Write(IdOf(0), bytes, images.get()).ok());
    EXPECT_TRUE(images->Has(IdOf(0)));
    EXPECT_EQ(images->used_bytes(), kImageHeaderBytes + 2'500'000);
  }
  const auto images = Open();
  EXPECT_EQ(images->file_count(), 1);
  EXPECT_EQ(images->used_bytes(), kImageHeaderBytes + 2'500'000);
  EXPECT_EQ(Read(IdOf(0), *images), bytes);
  EXPECT_TRUE(absl::IsNotFound(images->Read(IdOf(1)).status()));
  images->Remove(IdOf(0));
  images->Remove(IdOf(0));
  EXPECT_EQ(images->used_bytes(), 0);
  EXPECT_FALSE(files_.Has(ImageFiles::PathOf(IdOf(0))));
}

TEST_F(ImageFilesTest, AStartRemovesWhatIsOfNoUse) {
  {
    const auto images = Open();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(Write(IdOf(i), NewBytes(1000), images.get()).ok());
    }
  }
  held_.erase(IdOf(1));
  CHECK_OK(files_.OpenToWrite("images/.tmp-of-a-crash").status());
  EXPECT_EQ(Open()->file_count(), 2);
  EXPECT_FALSE(files_.Has("images/.tmp-of-a-crash"));
  EXPECT_EQ(Open(kImageHeaderBytes + 1500)->file_count(), 1) << "the bound";
  EXPECT_EQ(Open(1 << 30, "another program")->file_count(), 0);
  EXPECT_EQ(Open()->file_count(), 0);
}

TEST_F(ImageFilesTest, WhoOnlyCleansKeepsImagesOfEveryKey) {
  ASSERT_TRUE(Write(IdOf(0), NewBytes(1000), Open().get()).ok());
  const auto cleaner = ImageFiles::Open(
      &files_, {int64_t{1} << 30, std::nullopt},
      [this](const std::string& id) { return held_.count(id) != 0; });
  ASSERT_TRUE(cleaner.ok());
  EXPECT_EQ((*cleaner)->file_count(), 1);
}

TEST_F(ImageFilesTest, TheBoundIsKept) {
  const auto images = Open(2 * kImageHeaderBytes + 2000);
  ASSERT_TRUE(Write(IdOf(0), NewBytes(1500), images.get()).ok());
  const absl::Status full = Write(IdOf(1), NewBytes(501), images.get());
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(full.message(), testing::HasSubstr("--state_image_bytes"));
  EXPECT_TRUE(Write(IdOf(1), NewBytes(500), images.get()).ok());
}

TEST_F(ImageFilesTest, NoBitOfAHeaderCanChange) {
  const std::vector<uint8_t> bytes = NewBytes(600);
  const auto images = Open();
  ASSERT_TRUE(Write(IdOf(0), bytes, images.get()).ok());
  std::string& file = files_.Bytes(ImageFiles::PathOf(IdOf(0)));
  for (int64_t bit = 0; bit < 8 * kImageHeaderBytes; ++bit) {
    file[bit / 8] ^= 1 << bit % 8;
    EXPECT_TRUE(absl::IsDataLoss(images->Read(IdOf(0)).status())) << bit;
    file[bit / 8] ^= 1 << bit % 8;
  }
  for (const int64_t size : {0, 4095, 4096, 4096 + 599, 4096 + 601}) {
    const std::string whole = file;
    file.resize(size);
    EXPECT_TRUE(absl::IsDataLoss(images->Read(IdOf(0)).status())) << size;
    file = whole;
  }
  EXPECT_EQ(Read(IdOf(0), *images), bytes);
  // Another layer's file, whole.
  CHECK_OK(
      (*files_.OpenToWrite(ImageFiles::PathOf(IdOf(1))))->WriteAt(0, file));
  EXPECT_TRUE(absl::IsDataLoss(images->Read(IdOf(1)).status()));
}

TEST_F(ImageFilesTest, AFailedWriteLeavesNothing) {
  const std::vector<uint8_t> bytes = NewBytes(3'000'000);
  const auto images = Open();
  int failed = 0;
  for (int changes = 0; changes < 12; ++changes) {
    files_.FailAfter(changes, absl::ResourceExhaustedError("disk full"));
    const absl::Status written = Write(IdOf(0), bytes, images.get());
    files_.FailAfter(0, absl::OkStatus());
    if (written.ok()) break;
    ++failed;
    EXPECT_TRUE(Read(IdOf(0), *images).empty() || images->Has(IdOf(0)));
    EXPECT_EQ(images->used_bytes() > 0, images->Has(IdOf(0)));
  }
  EXPECT_GT(failed, 3);
  EXPECT_TRUE(Write(IdOf(0), bytes, images.get()).ok());
  EXPECT_EQ(Read(IdOf(0), *images), bytes);
}

TEST_F(ImageFilesTest, ACrashAtAnyMomentLeavesTheWholeOrNothing) {
  int whole = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string id = IdOf(round);
    held_ = {id};
    const std::vector<uint8_t> bytes = NewBytes(RandomInt(1, 9000, &random_));
    absl::Status written;
    {
      const auto images = Open();
      files_.FailAfter(RandomInt(0, 10, &random_),
                       absl::InternalError("no power"));
      written = Write(id, bytes, images.get());
    }
    files_.FailAfter(0, absl::OkStatus());
    files_.Crash();
    const auto images = Open();
    const std::vector<uint8_t> found = Read(id, *images);
    EXPECT_EQ(found.empty(), !images->Has(id));
    EXPECT_TRUE(found == bytes || (found.empty() && !written.ok()));
    whole += found.empty() ? 0 : 1;
  }
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace qgemm
