// SPDX-License-Identifier: Apache-2.0
//
// A flag that may be repeated, in every spelling that Abseil takes; flags that
// choose kernels, from the command line to the backend; flags that are off.

#include "server/server_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Join(const std::vector<std::string>& arguments) {
  return JoinRepeated(arguments, "listen");
}

TEST(JoinRepeated, LeavesWhatItDoesNotConcern) {
  EXPECT_THAT(Join({"server", "--other", "x", "--listener=a"}),
              ElementsAre("server", "--other", "x", "--listener=a"));
}

TEST(JoinRepeated, JoinsEverySpelling) {
  EXPECT_THAT(Join({"server", "--listen=a", "-listen", "b", "--x", "--listen",
                    "c", "-listen=d,e"}),
              ElementsAre("server", "--listen=a,b,c,d,e", "--x"));
}

TEST(JoinRepeated, TakesAValueThatHoldsAnEqualsSign) {
  EXPECT_THAT(Join({"server", "--listen", "unix:a=b", "--listen=unix:c=d"}),
              ElementsAre("server", "--listen=unix:a=b,unix:c=d"));
}

TEST(JoinRepeated, LeavesAFlagWithoutItsValue) {
  EXPECT_THAT(Join({"server", "--listen"}), ElementsAre("server", "--listen"));
}

TEST(JoinRepeated, StopsWhereFlagsEnd) {
  EXPECT_THAT(Join({"server", "--listen=a", "--", "--listen=b"}),
              ElementsAre("server", "--listen=a", "--", "--listen=b"));
}

absl::StatusOr<CommandLine> Parse(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseServerFlags(static_cast<int>(pointers.size()), pointers.data());
}

// One case: Abseil's flags are the process's.
TEST(ServerFlagsTest, HandsTheChoiceOfKernelsToTheBackend) {
  const absl::StatusOr<CommandLine> line =
      Parse({"server", "--listen=127.0.0.1:0", "--backend=cpu",
             "--kernel=large", "--tuning_file=/some/file", "--enable_freeze",
             "--batching=off", "--batch_policy=chase", "--batch_age_cap=3ms",
             "--max_client_queued_rows=5", "--max_client_queued_bytes=6"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_FALSE(line->server.batching);
  const SchedulerOptions& scheduler = line->server.scheduler;
  EXPECT_EQ(scheduler.policy.order, BatchOrder::kChase);
  EXPECT_EQ(scheduler.policy.age_cap, absl::Milliseconds(3));
  EXPECT_EQ(scheduler.max_client_queued_rows, 5);
  EXPECT_EQ(scheduler.max_client_queued_bytes, 6);
  EXPECT_FALSE(line->server.enable_echo);
  EXPECT_TRUE(line->server.enable_freeze);
  EXPECT_EQ(line->server.kernel, "large");
  EXPECT_EQ(line->server.tuning_file, "/some/file");
  ServerOptions options = line->server;
  absl::Status status = Server::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--kernel = \"large\""));
  options.scheduler.policy.age_cap = absl::Hours(1);
  status = Server::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--batch_age_cap = 1h"));
  options.scheduler.policy.age_cap = absl::ZeroDuration();
  options.kernel = "auto";
  status = Server::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--tuning_file = \"/some/file\""));
}

}  // namespace
}  // namespace qgemm
