// SPDX-License-Identifier: Apache-2.0

#include "client/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokenTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << text;
    return file_;
  }

  const TemporaryFolder folder_;
  const std::string file_ = folder_.File("token");
};

TEST_F(TokenTest, ThereIsNoneUnlessOneIsGiven) {
  const auto source = TokenSource::Create("", "");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(*source, nullptr);
}

TEST_F(TokenTest, TakesTextAndFilesWithoutTheirBlanks) {
  EXPECT_EQ((*TokenSource::Create("abc", ""))->token(), "abc");
  EXPECT_EQ((*TokenSource::Create("", Write("a-b_c.d=\r\n")))->token(),
            "a-b_c.d=");
}

TEST_F(TokenTest, ReadsTheFileAgain) {
  const auto source =
      TokenSource::Create("", Write("first"), absl::ZeroDuration());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->token(), "first");
  Write("second");
  EXPECT_EQ((*source)->token(), "second");
}

TEST_F(TokenTest, KeepsTheLastTokenWhileTheFileHasNone) {
  const auto source =
      TokenSource::Create("", Write("first"), absl::ZeroDuration());
  ASSERT_TRUE(source.ok()) << source.status();
  Write("");
  EXPECT_EQ((*source)->token(), "first");
  Write("two words");
  EXPECT_EQ((*source)->token(), "first");
  ASSERT_EQ(std::remove(file_.c_str()), 0);
  EXPECT_EQ((*source)->token(), "first");
  Write("second");
  EXPECT_EQ((*source)->token(), "second");
}

TEST_F(TokenTest, DoesNotReadTheFileForEachCall) {
  const auto source = TokenSource::Create("", Write("first"), absl::Hours(1));
  ASSERT_TRUE(source.ok()) << source.status();
  Write("second");
  EXPECT_EQ((*source)->token(), "first");
}

TEST_F(TokenTest, RefusesWhatGrpcWouldNotSend) {
  for (const char* text :
       {" ", "two words", "tab\tbed", "bell\a", "\xc3\xa9"}) {
    const absl::Status status = TokenSource::Create(text, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(TokenSource::Create("", Write(text)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(TokenSource::Create(std::string(5000, 'x'), "").ok());
}

TEST_F(TokenTest, RefusesTextAndFileTogether) {
  EXPECT_EQ(TokenSource::Create("abc", Write("abc")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TokenTest, ErrorsNameTheFileAndNotTheToken) {
  const absl::Status missing =
      TokenSource::Create("", folder_.File("none")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(folder_.File("none")));
  const absl::Status bad = TokenSource::Create("", Write("my secret")).status();
  EXPECT_THAT(std::string(bad.message()), HasSubstr(file_));
  EXPECT_THAT(std::string(bad.message()), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace qgemm
