// SPDX-License-Identifier: Apache-2.0
//
// qgemm_loadtest: flags in, report out, exit code. What runs is in load_test.h.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "loadtest/live_line.h"
#include "loadtest/load_test.h"
#include "loadtest/loadtest_flags.h"
#include "loadtest/options.h"
#include "loadtest/report/report_table.h"
#include "loadtest/report_files.h"
#include "qgemm/process_settings.h"

namespace qgemm {
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

std::string Quoted(absl::string_view argument) {
  constexpr absl::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./:=,%+@";
  if (!argument.empty() &&
      argument.find_first_not_of(kPlain) == absl::string_view::npos) {
    return std::string(argument);
  }
  return absl::StrCat("'", absl::StrReplaceAll(argument, {{"'", "'\\''"}}),
                      "'");
}

std::string CommandLine(int argc, char** argv) {
  std::string line = "qgemm_loadtest";
  for (int i = 1; i < argc; ++i) absl::StrAppend(&line, " ", Quoted(argv[i]));
  return line;
}

absl::StatusOr<LoadtestOptions> ReadOptions(int argc, char** argv) {
  ASSIGN_OR_RETURN(const LoadtestFlags flags, ReadLoadtestFlags(argc, argv));
  LoadtestHost host;
  host.cpus = static_cast<int>(std::thread::hardware_concurrency());
  host.terminal = isatty(STDERR_FILENO) == 1;
  host.read_file = ReadWholeFile;
  return ParseLoadtestOptions(flags, host);
}

int Run(int argc, char** argv) {
  const absl::StatusOr<LoadtestOptions> options = ReadOptions(argc, argv);
  if (!options.ok()) return Fail(options.status(), Verdict::kUsage);
  StopOnSignals();
  LiveLine live(
      options->output.live ? [](absl::string_view text) { std::cerr << text; }
                           : LiveLine::Write(),
      isatty(STDERR_FILENO) == 1 ? LiveStyle::kTerminal : LiveStyle::kFile);
  LoadtestReport report = RunLoadTest(*options, g_stop, &live);
  report.options = FlagValues();
  report.command = CommandLine(argc, argv);
  const absl::Status written = WriteReportFiles(report, options->output);
  if (!written.ok()) {
    report.findings.push_back(
        {Verdict::kNotWritten, std::string(written.message())});
  }
  std::cout << FormatTable(report) << std::flush;
  if (!std::cout && report.findings.empty()) {
    return Fail(absl::UnavailableError("cannot write the table"),
                Verdict::kNotWritten);
  }
  return static_cast<int>(report.verdict());
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  qgemm::KeepFreedOperandMemory();
  qgemm::SkipLockOrderChecks();
  return qgemm::Run(argc, argv);
}
