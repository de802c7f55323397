// SPDX-License-Identifier: Apache-2.0
//
// qgemm_loadtest: flags in, report out, exit code. runner.h runs the test.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "flags/command_line.h"
#include "loadtest/host.h"
#include "loadtest/live_line.h"
#include "loadtest/options.h"
#include "loadtest/report/report_formats.h"
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

int Run(int argc, char** argv) {
  LoadtestOptions options;
  const std::unique_ptr<CLI::App> app = MakeLoadtestApp(&options);
  if (const auto code = flags::Parse(app.get(), argc, argv)) return *code;
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const absl::Status usage =
      CompleteOptions({static_cast<int>(std::thread::hardware_concurrency()),
                       is_terminal, ReadWholeFile},
                      &options);
  if (!usage.ok()) return Fail(usage, Verdict::kUsage);
  StopOnSignals();
  LiveLine::Write write;
  if (options.output.live == OutputOptions::Live::kOn) {
    write = [](absl::string_view text) { std::cerr << text; };
  }
  LiveLine live(write, is_terminal ? LiveStyle::kTerminal : LiveStyle::kFile);
  LoadtestReport report = RunLoadTest(options, g_stop, &live);
  DescribeFlags(*app, &report);
  report.command = CommandLine(argc, argv);
  const absl::Status written = WriteReportFiles(report, options.output);
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
}  // namespace qgemm::loadtest

int main(int argc, char** argv) {
  qgemm::KeepFreedOperandMemory();
  qgemm::SkipLockOrderChecks();
  return qgemm::loadtest::Run(argc, argv);
}
