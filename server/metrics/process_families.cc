// SPDX-License-Identifier: Apache-2.0
//
// The process as /proc/self tells (proc(5)).

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/process_cpu.h"
#include "server/metrics/host_families.h"

namespace qgemm {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns field `index` of a text of words; 0 if there is none.
double Field(absl::string_view text, size_t index) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  double value = 0;
  if (index >= words.size() || !absl::SimpleAtod(words[index], &value)) {
    return 0;
  }
  return value;
}

// Returns the fields of /proc/self/stat behind the program's name, which may
// hold blanks and parentheses: the state, field 3 of proc(5), is its first.
absl::string_view BehindName(absl::string_view stat) {
  const size_t end = stat.rfind(')');
  return end == absl::string_view::npos ? "" : stat.substr(end + 1);
}

// Seconds since 1970 at which the machine started.
double BootTime() {
  const std::string stat = ReadFile("/proc/stat");
  const size_t found = stat.find("\nbtime ");
  return found == std::string::npos
             ? 0
             : Field(absl::string_view(stat).substr(found), 1);
}

// The open files; the one by which they are counted is not.
double OpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  return entries - 3;  // ".", ".." and the folder itself
}

double MaxFiles() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

prometheus::MetricFamily CpuSeconds() {
  prometheus::ClientMetric metric;
  metric.counter.value = absl::ToDoubleSeconds(ProcessCpu());
  return {"process_cpu_seconds_total",
          "User and system time of all threads.",
          prometheus::MetricType::Counter,
          {metric}};
}

}  // namespace

void CollectProcess(MetricFamilies* families) {
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const std::string stat = ReadFile("/proc/self/stat");
  const std::string statm = ReadFile("/proc/self/statm");
  const absl::string_view fields = BehindName(stat);
  families->push_back(CpuSeconds());
  const struct {
    const char* name;
    const char* help;
    double value;
  } gauges[] = {
      {"process_resident_memory_bytes", "Resident memory.",
       Field(statm, 1) * page_bytes},
      {"process_virtual_memory_bytes", "Virtual memory.",
       Field(statm, 0) * page_bytes},
      {"process_threads", "Threads.", Field(fields, 17)},
      {"process_open_fds", "Open files.", OpenFiles()},
      {"process_max_fds", "Limit of open files.", MaxFiles()},
      {"process_start_time_seconds", "Start, in seconds since 1970.",
       BootTime() + Field(fields, 19) / ticks},
  };
  for (const auto& [name, help, value] : gauges) {
    families->push_back(SampledGauge(name, help, value));
  }
}

}  // namespace qgemm
