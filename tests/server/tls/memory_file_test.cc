// SPDX-License-Identifier: Apache-2.0
//
// A file in memory: what its readers see, and who else does.

#include "server/tls/memory_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

namespace qgemm {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

time_t ModifiedAt(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_mtime;
}

TEST(MemoryFileTest, IsReadByItsPath) {
  const auto file = MemoryFile::Create("one");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Read((*file)->path()), "one");
  ASSERT_TRUE((*file)->Replace("other").ok());
  EXPECT_EQ(Read((*file)->path()), "other");
}

TEST(MemoryFileTest, IsForItsOwnerOnly) {
  const auto file = MemoryFile::Create("secret");
  ASSERT_TRUE(file.ok()) << file.status();
  struct stat status = {};
  ASSERT_EQ(stat((*file)->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0400u);
}

TEST(MemoryFileTest, IsYoungerWithEachText) {
  const auto file = MemoryFile::Create("");
  ASSERT_TRUE(file.ok()) << file.status();
  for (int i = 0; i < 3; ++i) {
    const time_t before = ModifiedAt((*file)->path());
    ASSERT_TRUE((*file)->Replace("same").ok());
    EXPECT_GT(ModifiedAt((*file)->path()), before);
  }
}

TEST(MemoryFileTest, IsAlwaysReadWhole) {
  const std::string texts[] = {std::string(5000, 'a'), std::string(9000, 'b')};
  const auto file = MemoryFile::Create(texts[0]);
  ASSERT_TRUE(file.ok()) << file.status();
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) {
      ASSERT_TRUE((*file)->Replace(texts[i % 2]).ok());
    }
    ended = true;
  });
  while (!ended) {
    const std::string text = Read((*file)->path());
    ASSERT_TRUE(text == texts[0] || text == texts[1]) << text.size();
  }
  writer.join();
}

}  // namespace
}  // namespace qgemm
