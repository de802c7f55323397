// SPDX-License-Identifier: Apache-2.0
//
// Limits of cgroups as the files of hosts and containers show them.

#include "base/host_memory.h"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

constexpr char kMountTwo[] =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
constexpr char kMountOne[] =
    "33 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "34 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

// The limit of a process that sees these files and no others.
std::optional<int64_t> LimitAmong(
    const std::map<std::string, std::string>& files) {
  return CgroupMemoryLimit([&files](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt
                                : std::make_optional(found->second);
  });
}

struct LimitCase {
  const char* name;
  std::map<std::string, std::string> files;
  std::optional<int64_t> limit;
};

class CgroupMemoryLimitTest : public ::testing::TestWithParam<LimitCase> {};

TEST_P(CgroupMemoryLimitTest, IsTheLeastUpTheTree) {
  EXPECT_EQ(LimitAmong(GetParam().files), GetParam().limit);
}

const LimitCase kCases[] = {
    {"NoFiles", {}, std::nullopt},
    {"NoCgroupMounted",
     {{"/proc/self/cgroup", "0::/a\n"},
      {"/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"}},
     std::nullopt},
    {"TwoOwnGroup",
     {{"/proc/self/cgroup", "0::/system.slice/qgemm.service\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/system.slice/qgemm.service/memory.max", "8589934592\n"}},
     8 * kGib},
    {"TwoParentIsLess",
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/a/b/memory.max", "8589934592\n"},
      {"/sys/fs/cgroup/a/memory.max", "2147483648\n"}},
     2 * kGib},
    {"TwoOwnIsMaxParentIsNot",
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
      {"/sys/fs/cgroup/a/memory.max", "1073741824\n"}},
     kGib},
    {"TwoAllMax",
     {{"/proc/self/cgroup", "0::/a\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/a/memory.max", "max\n"}},
     std::nullopt},
    // A container with a cgroup namespace: its group is the mount's root.
    {"TwoNamespace",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/memory.max", "1073741824\n"}},
     kGib},
    {"TwoOutsideTheNamespace",
     {{"/proc/self/cgroup", "0::/../other\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/memory.max", "1073741824\n"}},
     kGib},
    {"OneOwnGroup",
     {{"/proc/self/cgroup", "7:memory:/jobs/1\n3:cpu,cpuacct:/elsewhere\n"},
      {"/proc/self/mountinfo", kMountOne},
      {"/sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes", "4294967296\n"}},
     4 * kGib},
    // A container without a namespace: the mount's root is its group.
    {"OneContainer",
     {{"/proc/self/cgroup", "7:memory:/docker/abc\n"},
      {"/proc/self/mountinfo",
       "33 25 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup "
       "rw,memory\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"}},
     kGib},
    {"OneUnlimitedIsBeyondAnyHost",
     {{"/proc/self/cgroup", "7:memory:/\n"},
      {"/proc/self/mountinfo", kMountOne},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     9223372036854771712},
    // Version 1 limits memory, version 2 is mounted for systemd alone.
    {"Hybrid",
     {{"/proc/self/cgroup", "7:memory:/jobs\n0::/user.slice\n"},
      {"/proc/self/mountinfo",
       std::string(kMountOne) +
           "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "2147483648\n"}},
     2 * kGib},
    {"SpaceInTheMountPoint",
     {{"/proc/self/cgroup", "0::/a\n"},
      {"/proc/self/mountinfo",
       "30 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n"},
      {"/mnt/my groups/a/memory.max", "1073741824\n"}},
     kGib},
    {"ColonInTheGroup",
     {{"/proc/self/cgroup", "0::/a:b\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/a:b/memory.max", "1073741824\n"}},
     kGib},
    {"Nonsense",
     {{"/proc/self/cgroup", "::::\n0:\n\n0::relative\n"},
      {"/proc/self/mountinfo", "- - -\n\\\n1 2 3 4 5 6 -\n1 2 3 4\\04 - x y"},
      {"/sys/fs/cgroup/memory.max", "-1\n"}},
     std::nullopt},
    {"LimitIsNoNumber",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", kMountTwo},
      {"/sys/fs/cgroup/memory.max", "plenty\n"}},
     std::nullopt},
};

INSTANTIATE_TEST_SUITE_P(Files, CgroupMemoryLimitTest,
                         ::testing::ValuesIn(kCases), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(HostMemoryTest, IsWholePagesAndMoreThanThisProcessNeeds) {
  EXPECT_GE(HostMemoryBytes(), int64_t{64} << 20);
  EXPECT_EQ(HostMemoryBytes() % sysconf(_SC_PAGE_SIZE), 0);
}

TEST(HostMemoryTest, TheLimitIsAtMostThePhysicalMemory) {
  EXPECT_GT(MemoryLimitBytes(), 0);
  EXPECT_LE(MemoryLimitBytes(), HostMemoryBytes());
}

}  // namespace
}  // namespace qgemm
