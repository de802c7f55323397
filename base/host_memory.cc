// SPDX-License-Identifier: Apache-2.0
//
// Limits of cgroups by cgroups(7): a mount of the hierarchy shows the tree
// below the mount's root, and a group's limits bind all groups below it.

#include "base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace qgemm {
namespace {

enum class CgroupVersion { kOne, kTwo };

// A mounted hierarchy that may limit memory.
struct CgroupMount {
  CgroupVersion version;
  std::string root;   // group that the mount point shows
  std::string point;  // folder of the mount
};

bool HasItem(absl::string_view list, absl::string_view item) {
  for (const absl::string_view candidate : absl::StrSplit(list, ',')) {
    if (candidate == item) return true;
  }
  return false;
}

// Undoes mountinfo's escapes of spaces and the like: "\040".
std::string UnescapeOctal(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    size_t digits = 0;
    while (text[i] == '\\' && digits < 3 && i + 1 + digits < text.size() &&
           text[i + 1 + digits] >= '0' && text[i + 1 + digits] <= '7') {
      value = value * 8 + (text[i + 1 + digits] - '0');
      ++digits;
    }
    if (digits == 3) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// A line of /proc/self/mountinfo (proc(5)): "36 35 98:0 /root /point options
// optional... - type source super_options".
std::optional<CgroupMount> ParseMount(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  const std::vector<absl::string_view> mount =
      absl::StrSplit(halves.first, ' ');
  const std::vector<absl::string_view> source =
      absl::StrSplit(halves.second, ' ');
  if (mount.size() < 5 || source.size() < 3) return std::nullopt;
  CgroupMount parsed;
  parsed.root = UnescapeOctal(mount[3]);
  parsed.point = UnescapeOctal(mount[4]);
  if (source[0] == "cgroup2") {
    parsed.version = CgroupVersion::kTwo;
  } else if (source[0] == "cgroup" && HasItem(source[2], "memory")) {
    parsed.version = CgroupVersion::kOne;
  } else {
    return std::nullopt;
  }
  return parsed;
}

// The process's group in the hierarchy of `version`, from the lines of
// /proc/self/cgroup: "0::/group" and "5:memory:/group".
std::optional<std::string> GroupOf(absl::string_view cgroups,
                                   CgroupVersion version) {
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3) continue;
    const bool is_it = version == CgroupVersion::kTwo
                           ? parts[0] == "0" && parts[1].empty()
                           : HasItem(parts[1], "memory");
    if (is_it) return std::string(parts[2]);
  }
  return std::nullopt;
}

// The group's path below the mount point. A group that the mount does not show,
// because the process has a namespace of its own, is its root.
std::string BelowMount(const CgroupMount& mount, absl::string_view group) {
  const absl::string_view root =
      absl::StripSuffix(absl::string_view(mount.root), "/");
  if (!absl::ConsumePrefix(&group, root) ||
      !(group.empty() || group.front() == '/') ||
      absl::StrContains(group, "/..")) {
    return "";
  }
  return std::string(absl::StripSuffix(group, "/"));
}

// "max" and numbers beyond 63 bits are no limit.
std::optional<int64_t> ParseLimit(const std::optional<std::string>& text) {
  uint64_t bytes = 0;
  if (!text.has_value() ||
      !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &bytes) ||
      bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<int64_t>(bytes);
}

std::optional<int64_t> Least(std::optional<int64_t> a,
                             std::optional<int64_t> b) {
  if (!a.has_value()) return b;
  return b.has_value() ? std::min(*a, *b) : a;
}

// The least limit from the group up to the mount point.
std::optional<int64_t> LimitOf(const CgroupMount& mount,
                               absl::string_view group, FileReader read) {
  const char* const file = mount.version == CgroupVersion::kTwo
                               ? "memory.max"
                               : "memory.limit_in_bytes";
  std::optional<int64_t> limit;
  std::string path = BelowMount(mount, group);  // empty, or begins with /
  for (;;) {
    const std::string name = absl::StrCat(mount.point, path, "/", file);
    limit = Least(limit, ParseLimit(read(name)));
    if (path.empty()) return limit;
    path.erase(path.rfind('/'));
  }
}

std::optional<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace

int64_t HostMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

int64_t MemoryLimitBytes() {
  const int64_t host_bytes = HostMemoryBytes();
  return std::min(host_bytes,
                  CgroupMemoryLimit(ReadWholeFile).value_or(host_bytes));
}

std::optional<int64_t> CgroupMemoryLimit(FileReader read) {
  const std::optional<std::string> cgroups = read("/proc/self/cgroup");
  const std::optional<std::string> mounts = read("/proc/self/mountinfo");
  if (!cgroups.has_value() || !mounts.has_value()) return std::nullopt;
  std::optional<int64_t> limit;
  for (const absl::string_view line : absl::StrSplit(*mounts, '\n')) {
    const std::optional<CgroupMount> mount = ParseMount(line);
    if (!mount.has_value()) continue;
    const std::optional<std::string> group = GroupOf(*cgroups, mount->version);
    if (group.has_value()) limit = Least(limit, LimitOf(*mount, *group, read));
  }
  return limit;
}

}  // namespace qgemm
