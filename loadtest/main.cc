// SPDX-License-Identifier: Apache-2.0

#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/version.h"
#include "flags/command_line.h"
#include "loadtest/live_line.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/runner.h"
#include "qgemm/process_settings.h"

namespace qgemm::loadtest {
namespace {

// Set by the signal handler; lock-free, so that it may.
std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler must not take a lock");

// The first signal ends the run, a second one the process.
void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_stop.store(true); };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left is a failed write
}

int Fail(const absl::Status& status, Verdict verdict) {
  std::cerr << "qgemm_loadtest: " << status.message() << " ("
            << absl::StatusCodeToString(status.code()) << ")\n";
  return static_cast<int>(verdict);
}

// The command line as a shell takes it.
std::string CommandLine(int argc, char** argv) {
  std::string line = "qgemm_loadtest";
  for (int i = 1; i < argc; ++i) {
    const std::string quoted = absl::StrReplaceAll(argv[i], {{"'", "'\\''"}});
    const bool plain = absl::c_all_of(absl::string_view(argv[i]), [](char c) {
      return absl::ascii_isalnum(c) || absl::StrContains("_-./:=,%+@", c);
    });
    absl::StrAppend(&line, plain ? " " : " '", quoted, plain ? "" : "'");
  }
  return line;
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::StartsWith(parts.first, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

// Fills in the client's side; facts that the system does not tell stay empty.
void DescribeClient(LoadtestEnvironment* environment) {
  environment->version = kVersion;
  environment->client_cpus =
      static_cast<int>(std::thread::hardware_concurrency());
  environment->client_cpu = CpuModel();
  utsname system;
  if (uname(&system) != 0) return;
  environment->client_system =
      absl::StrCat(system.sysname, " ", system.release);
}

// Writes the report, or adds to its findings. A full disk may show only when
// the last bytes are handed over.
void WriteJson(const std::string& path, LoadtestReport* report) {
  std::ofstream file(path, std::ios::binary);
  file << FormatJson(*report);
  file.close();
  if (file) return;
  report->findings.push_back(
      {Verdict::kNotWritten, absl::StrCat("--json: cannot write ", path, ": ",
                                          std::strerror(errno))});
}

int Run(int argc, char** argv) {
  LoadtestOptions options;
  const std::unique_ptr<CLI::App> app = MakeLoadtestApp(&options);
  if (const auto code = flags::Parse(app.get(), argc, argv)) return *code;
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const absl::Status usage = CompleteOptions(
      static_cast<int>(std::thread::hardware_concurrency()), &options);
  if (!usage.ok()) return Fail(usage, Verdict::kUsage);
  StopOnSignals();
  const bool shows = options.output.live.value_or(is_terminal);
  LiveLine live(shows ? &std::cerr : nullptr, is_terminal);
  LoadtestReport report = RunLoadTest(options, g_stop, &live);
  DescribeFlags(*app, &report);
  report.command = CommandLine(argc, argv);
  DescribeClient(&report.environment);
  absl::string_view transport = report.option("transport");
  if (transport == "call") {
    const ConnectionFlags& connection = options.connection;
    transport = absl::StartsWith(connection.server, "unix:") ? "unix"
                : connection.tls_ca.empty()                  ? "tcp"
                                                             : "tls";
  }
  report.environment.transport = std::string(transport);
  if (!options.output.json.empty()) {
    WriteJson(options.output.json, &report);
  }
  std::cout << FormatTable(report) << std::flush;
  if (!std::cout && report.findings.empty()) {
    return Fail(absl::UnavailableError("cannot write the table"),
                Verdict::kNotWritten);
  }
  return static_cast<int>(report.verdict());
}

}  // namespace
}  // namespace qgemm::loadtest

int main(int argc, char** argv) {
  qgemm::KeepFreedOperandMemory();
  qgemm::SkipLockOrderChecks();
  return qgemm::loadtest::Run(argc, argv);
}
