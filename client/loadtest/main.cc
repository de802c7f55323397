// SPDX-License-Identifier: Apache-2.0
//
// qgemm_loadtest's command line: flags in, report out, exit code. What runs is
// in load_test.h.

#include <atomic>
#include <csignal>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/loadtest/load_test.h"
#include "client/loadtest/options.h"
#include "client/loadtest/report.h"

ABSL_FLAG(std::string, server, "127.0.0.1:50051",
          "Server to load: host:port or unix:path.");
ABSL_FLAG(std::string, weights, "",
          "Name or id of weights on the server. Answers to one input are then "
          "compared with each other; fp64 needs --synthetic.");
ABSL_FLAG(std::string, synthetic, "",
          "KxN: upload random weights of that shape, remove them at the end.");
ABSL_FLAG(std::string, format, "kbit4",
          "Format of synthetic weights: kbit2, kbit3, kbit4, kbit5, q4_0, "
          "ternary, int4, int4-asymmetric, fp16 or bf16.");
ABSL_FLAG(int64_t, m, 1, "Rows of activations a request.");
ABSL_FLAG(int, concurrency, 1, "Requests in flight.");
ABSL_FLAG(int, connections, 1, "Connections that the requests share.");
ABSL_FLAG(int, inputs, 8, "Distinct activation matrices, sent in turn.");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(10),
          "How long to measure, as in 10s or 500ms.");
ABSL_FLAG(absl::Duration, warmup, absl::Seconds(1),
          "How long to send before measuring.");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(30),
          "Deadline of one request.");
ABSL_FLAG(std::string, dtype, "fp16",
          "Element type of the activations: fp32, fp16 or bf16.");
ABSL_FLAG(std::string, out_dtype, "",
          "Element type of the results; default: --dtype.");
ABSL_FLAG(std::string, mode, "A16", "Compute mode: A16, A8 or A32.");
ABSL_FLAG(uint64_t, seed, 1, "Seed of weights and activations.");
ABSL_FLAG(std::string, verify, "none",
          "none; sample: some answers; all: every answer.");
ABSL_FLAG(std::string, json, "", "Also write the report to this file.");

namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr char kUsage[] =
    "Keeps --concurrency Gemm requests in flight and reports latency and\n"
    "throughput. Ctrl-C ends the run and reports what was measured.\n\n"
    "  qgemm_loadtest --server=127.0.0.1:50051 --synthetic=4096x14336\n"
    "      --concurrency=4 --m=1 --duration=10s --verify=sample\n\n"
    "Exit codes: 0 every answer came and none was found wrong; 1 errors, "
    "wrong\n"
    "answers or no answer at all; 2 wrong usage.";

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
}

qgemm::LoadtestFlags ReadFlags() {
  qgemm::LoadtestFlags flags;
  flags.server = absl::GetFlag(FLAGS_server);
  flags.weights = absl::GetFlag(FLAGS_weights);
  flags.synthetic = absl::GetFlag(FLAGS_synthetic);
  flags.format = absl::GetFlag(FLAGS_format);
  flags.dtype = absl::GetFlag(FLAGS_dtype);
  flags.out_dtype = absl::GetFlag(FLAGS_out_dtype);
  flags.mode = absl::GetFlag(FLAGS_mode);
  flags.verify = absl::GetFlag(FLAGS_verify);
  flags.json = absl::GetFlag(FLAGS_json);
  flags.m = absl::GetFlag(FLAGS_m);
  flags.concurrency = absl::GetFlag(FLAGS_concurrency);
  flags.connections = absl::GetFlag(FLAGS_connections);
  flags.inputs = absl::GetFlag(FLAGS_inputs);
  flags.duration = absl::GetFlag(FLAGS_duration);
  flags.warmup = absl::GetFlag(FLAGS_warmup);
  flags.timeout = absl::GetFlag(FLAGS_timeout);
  flags.seed = absl::GetFlag(FLAGS_seed);
  return flags;
}

int Fail(const absl::Status& status, int exit_code) {
  std::cerr << "qgemm_loadtest: " << status.message() << " ("
            << absl::StatusCodeToString(status.code()) << ")\n";
  return exit_code;
}

absl::Status WriteJson(const std::string& path, const std::string& json) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << json;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write --json=", path));
}

// Reads `--name=value` and `--name value`. Abseil's own parser ends the process
// with 1 at a mistake; that code means a failed run here.
absl::Status ParseFlags(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    absl::string_view name = argument;
    if (!absl::ConsumePrefix(&name, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument ", argument));
    }
    const size_t equals = name.find('=');
    absl::CommandLineFlag* const flag =
        absl::FindCommandLineFlag(name.substr(0, equals));
    if (flag == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", argument, "; --help lists all"));
    }
    if (equals == absl::string_view::npos && i + 1 == argc) {
      return absl::InvalidArgumentError(
          absl::StrCat(argument, " needs a value"));
    }
    const absl::string_view value = equals == absl::string_view::npos
                                        ? absl::string_view(argv[++i])
                                        : name.substr(equals + 1);
    std::string error;
    if (!flag->ParseFrom(value, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag->Name(), "=", value, ": ", error));
    }
  }
  return absl::OkStatus();
}

// Abseil would look for flags in a file named after the program.
void ShowOurFlagsInHelp() {
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::StrContains(file, "client/loadtest");
  };
  config.contains_helpshort_flags = config.contains_help_flags;
  absl::SetFlagsUsageConfig(config);
}

bool AsksForHelp(int argc, char** argv) {
  return argc == 2 && absl::StartsWith(argv[1], "--help");
}

int Run() {
  const absl::StatusOr<qgemm::LoadtestOptions> options =
      qgemm::ParseLoadtestOptions(ReadFlags());
  if (!options.ok()) return Fail(options.status(), kExitUsage);
  StopOnSignals();
  const absl::StatusOr<qgemm::LoadtestReport> report =
      qgemm::RunLoadTest(*options, g_stop);
  if (!report.ok()) return Fail(report.status(), kExitFailed);
  std::cout << qgemm::FormatTable(*report) << std::flush;
  const absl::Status written =
      WriteJson(options->json_path, qgemm::FormatJson(*report));
  if (!written.ok()) return Fail(written, kExitFailed);
  return report->passed() ? kExitOk : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  ShowOurFlagsInHelp();
  if (AsksForHelp(argc, argv)) absl::ParseCommandLine(argc, argv);
  const absl::Status parsed = ParseFlags(argc, argv);
  if (!parsed.ok()) return Fail(parsed, kExitUsage);
  return Run();
}
