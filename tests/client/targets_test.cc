// SPDX-License-Identifier: Apache-2.0

#include "client/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

TEST(ResolveTargetsTest, TakesOneOfEachForm) {
  const auto servers =
      ResolveTargets("gpu1.corp:50051,[2001:db8::1]:7,unix:/run/qgemm.sock");
  ASSERT_TRUE(servers.ok()) << servers.status();
  ASSERT_EQ(servers->size(), 3u);
  EXPECT_EQ((*servers)[0].address, "gpu1.corp:50051");
  EXPECT_FALSE((*servers)[0].is_unix);
  EXPECT_EQ((*servers)[1].address, "[2001:db8::1]:7");
  EXPECT_EQ((*servers)[2].address, "unix:/run/qgemm.sock");
  EXPECT_TRUE((*servers)[2].is_unix);
  for (const ServerTarget& server : *servers) {
    EXPECT_EQ(server.certificate_name, "") << server.address;
  }
}

TEST(ResolveTargetsTest, KnowsWhatStaysOnTheMachine) {
  const struct {
    const char* target;
    bool is_local;
  } cases[] = {
      {"unix:relative", true},
      {"localhost:1", true},
      {"127.0.0.1:1", true},
      {"127.9.9.9:1", true},
      {"[::1]:1", true},
      {"10.0.0.1:1", false},
      {"128.0.0.1:1", false},
      {"localhost.corp:1", false},
      {"127.0.0.1.corp:1", false},
      {"[::2]:1", false},
      {"ipv4:127.0.0.1:1", false},
      {"0.0.0.0:1", false},
      {"dns:///127.0.0.1:1", true},
      {"[::ffff:10.0.0.1]:1", false},
  };
  for (const auto& c : cases) {
    const auto servers = ResolveTargets(c.target);
    ASSERT_TRUE(servers.ok()) << servers.status();
    EXPECT_EQ(servers->front().is_local, c.is_local) << c.target;
  }
}

TEST(ResolveTargetsTest, RefusesWhatIsNoTarget) {
  for (const char* target :
       {"", "host", "host:", ":1", "unix:", "a:1,", ",a:1", "a:1,,b:1", "[::1]",
        "[::1:1", "dns:///", "dns:///host", "[]:1"}) {
    EXPECT_EQ(ResolveTargets(target).status().code(),
              absl::StatusCode::kInvalidArgument)
        << target;
  }
}

TEST(ResolveTargetsTest, RefusesAServerNamedTwice) {
  const absl::Status status = ResolveTargets("a:1,b:1,a:1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a:1 twice"));
}

TEST(ResolveTargetsTest, RefusesMoreServersThanAClientHas) {
  std::string targets = "a:0";
  for (int i = 1; i < kMaxServers; ++i) absl::StrAppend(&targets, ",a:", i);
  EXPECT_TRUE(ResolveTargets(targets).ok());
  EXPECT_EQ(ResolveTargets(targets + ",b:1").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ResolveTargetsTest, ADnsNameIsAServerAtEachOfItsAddresses) {
  const auto servers = ResolveTargets("dns:///localhost:50051");
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_TRUE(std::any_of(servers->begin(), servers->end(),
                          [](const ServerTarget& server) {
                            return server.address == "ipv4:127.0.0.1:50051" ||
                                   server.address == "ipv6:[::1]:50051";
                          }));
  for (const ServerTarget& server : *servers) {
    EXPECT_EQ(server.certificate_name, "localhost");
    EXPECT_TRUE(server.is_local);
  }
}

// No name has so long a part, which the resolver knows without asking anybody.
TEST(ResolveTargetsTest, ANameWithoutAnAddressIsUnavailable) {
  const std::string name(100, 'x');
  const absl::Status status = ResolveTargets("dns:///" + name + ":1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

}  // namespace
}  // namespace qgemm
