// SPDX-License-Identifier: Apache-2.0
//
// The table in force, while its file changes.

#include "server/access/access_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AccessControlTest : public ::testing::Test {
 protected:
  // A table with one client, by its user id.
  void Write(int user) {
    WriteText(absl::StrCat(
        R"({"clients": [{"id": "a", "rights": [], "match": [{"uid": )", user,
        "}]}]}"));
  }
  void WriteText(const std::string& text) {
    const std::string next = folder_.File("next");
    std::ofstream(next) << text;
    ASSERT_EQ(rename(next.c_str(), path_.c_str()), 0);
  }
  bool Knows(int user) const {
    return control_.table()->FindName(absl::StrCat("uid:", user)) != nullptr;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("access.json");
  ServerMetrics metrics_;
  AccessControl control_{path_, &metrics_};
};

TEST_F(AccessControlTest, KnowsNobodyBeforeItHasRead) {
  Write(1);
  EXPECT_FALSE(Knows(1));
  ASSERT_TRUE(control_.Reload().ok());
  EXPECT_TRUE(Knows(1));
}

TEST_F(AccessControlTest, AnotherTableIsAnotherGeneration) {
  Write(1);
  ASSERT_TRUE(control_.Reload().ok());
  const uint64_t first = control_.generation();
  Write(2);
  ASSERT_TRUE(control_.Reload().ok());
  EXPECT_NE(control_.generation(), first);
  EXPECT_FALSE(Knows(1));
  EXPECT_TRUE(Knows(2));
}

TEST_F(AccessControlTest, TheSameTextIsTheSameGeneration) {
  Write(1);
  ASSERT_TRUE(control_.Reload().ok());
  const uint64_t first = control_.generation();
  Write(1);
  ASSERT_TRUE(control_.Reload().ok());
  EXPECT_EQ(control_.generation(), first);
}

TEST_F(AccessControlTest, ABadTableChangesNothing) {
  Write(1);
  ASSERT_TRUE(control_.Reload().ok());
  const uint64_t first = control_.generation();
  WriteText("{\"clients\": [{\"id\": 7}]}");
  const absl::Status refused = control_.Reload();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--access_table = \"" + path_),
                    HasSubstr("clients[0].id = 7")));
  EXPECT_TRUE(Knows(1));
  EXPECT_EQ(control_.generation(), first);
}

TEST_F(AccessControlTest, AFileThatIsGoneChangesNothing) {
  Write(1);
  ASSERT_TRUE(control_.Reload().ok());
  ASSERT_EQ(remove(path_.c_str()), 0);
  EXPECT_EQ(control_.Reload().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Knows(1));
}

TEST_F(AccessControlTest, RefusesAFileThatEverybodyMayWrite) {
  Write(1);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(control_.Reload().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(Knows(1));
}

TEST_F(AccessControlTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_THAT(std::string(control_.Reload().message()),
              HasSubstr("not a regular file"));
  ASSERT_EQ(remove(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(std::string(control_.Reload().message()),
              HasSubstr("not a regular file"));
}

TEST_F(AccessControlTest, LacksDescriptorsNotATable) {
  Write(1);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = control_.Reload();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(AccessControlTest, FollowsItsFile) {
  Write(1);
  ASSERT_TRUE(control_.Start().ok());
  Write(2);
  while (!Knows(2)) std::this_thread::yield();
  EXPECT_FALSE(Knows(1));
}

}  // namespace
}  // namespace qgemm
