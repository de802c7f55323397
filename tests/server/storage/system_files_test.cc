// SPDX-License-Identifier: Apache-2.0
//
// Files of the system the test runs on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "server/storage/file_system.h"
#include "server/storage/state_directory.h"
#include "tests/server/storage/random_layer.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SystemFilesTest : public testing::Test {
 protected:
  std::string Content(const std::string& path) {
    const auto file = files_->OpenToRead(path);
    if (!file.ok()) return file.status().ToString();
    std::string bytes(100, '\0');
    bytes.resize(*(*file)->ReadAt(0, absl::MakeSpan(bytes)));
    return bytes;
  }
  void Put(const std::string& path, const std::string& content) {
    auto file = files_->CreateUnnamed(".");
    CHECK_OK(file.status());
    CHECK_OK((*file)->WriteAt(0, content));
    CHECK_OK((*file)->Sync());
    CHECK_OK(files_->Publish(file->get(), path));
    CHECK_OK(files_->SyncFolder("."));
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<FileSystem> files_ = NewSystemFiles(folder_.path());
};

TEST_F(SystemFilesTest, AnUnnamedFileIsThereOncePublished) {
  {
    auto file = files_->CreateUnnamed(".");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Allocate(1000).ok());
    ASSERT_TRUE((*file)->WriteAt(0, "abc").ok());
  }
  EXPECT_THAT(*files_->List("."), IsEmpty());
  Put("file", "first");
  EXPECT_EQ(Content("file"), "first");
  Put("file", "second");  // in place of the first
  EXPECT_EQ(Content("file"), "second");
  EXPECT_EQ(files_->List(".")->size(), 1);
}

TEST_F(SystemFilesTest, TellsOfFilesThatAreNotThere) {
  EXPECT_TRUE(absl::IsNotFound(files_->OpenToRead("none").status()));
  EXPECT_TRUE(absl::IsNotFound(files_->Remove("none")));
  EXPECT_TRUE(absl::IsNotFound(files_->List("none").status()));
  Put("file", "content");
  EXPECT_EQ(files_->List("file").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SystemFilesTest, BytesThatCannotBeReadAreLost) {
  // No memory is mapped at 0, for which the system says EIO.
  const auto files = NewSystemFiles("/proc/self");
  const auto memory = files->OpenToRead("mem");
  ASSERT_TRUE(memory.ok()) << memory.status();
  char byte = 0;
  const absl::Status status = (*memory)->ReadAt(0, {&byte, 1}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("read mem"));
}

TEST_F(SystemFilesTest, ALockIsHeldOnce) {
  {
    const auto held = files_->Lock("lock");
    ASSERT_TRUE(held.ok());
    EXPECT_TRUE(absl::IsUnavailable(files_->Lock("lock").status()));
  }
  EXPECT_TRUE(files_->Lock("lock").ok());
}

TEST_F(SystemFilesTest, ALimitOfFileSizesRefusesAnUploadAndNoMore) {
  RandomGenerator random(FreshSeed());
  const RandomLayer small = MakeRandomLayer(8, 64, &random);
  const RandomLayer large = MakeRandomLayer(300, 3000, &random);
  auto directory = StateDirectory::Open(files_.get(), {});
  ASSERT_TRUE(directory.ok()) << directory.status();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = before;
  limit.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto refused = KeepLayer(large, directory->get(), &random);
  const auto kept = KeepLayer(small, directory->get(), &random);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("File too large"));
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE((*directory)->Read(small.id())->Verify().ok());
}

TEST_F(SystemFilesTest, LeftTemporariesGoAtTheNextOpening) {
  ASSERT_TRUE(StateDirectory::Open(files_.get(), {}).ok());
  ASSERT_TRUE(files_->OpenToWrite("layers/.tmp-abcdef").ok());
  ASSERT_TRUE(files_->OpenToWrite(".tmp-abcdef").ok());
  ASSERT_TRUE(StateDirectory::Open(files_.get(), {}).ok());
  EXPECT_THAT(*files_->List("layers"), IsEmpty());
}

}  // namespace
}  // namespace qgemm
