// SPDX-License-Identifier: Apache-2.0
//
// What a port file holds, and what happens where it cannot be written.

#include "server/port_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace qgemm {
namespace {

using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WritePortFile, HoldsOnePortALine) {
  const std::string path = ::testing::TempDir() + "/ports";
  ASSERT_TRUE(WritePortFile(path, {1, 65535}).ok());
  EXPECT_EQ(Read(path), "1\n65535\n");
}

TEST(WritePortFile, ReplacesAnOlderFile) {
  const std::string path = ::testing::TempDir() + "/replaced";
  ASSERT_TRUE(WritePortFile(path, {1, 2, 3}).ok());
  ASSERT_TRUE(WritePortFile(path, {4}).ok());
  EXPECT_EQ(Read(path), "4\n");
}

TEST(WritePortFile, NamesAFileThatItCannotWrite) {
  const std::string path = ::testing::TempDir() + "/no/such/folder/ports";
  const absl::Status status = WritePortFile(path, {1});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(path));
}

}  // namespace
}  // namespace qgemm
