// SPDX-License-Identifier: Apache-2.0
//
// qgemm_loadtest as a process against a server: what it reports, what it
// finds, and how it ends.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "loadtest/report/loadtest_report.h"
#include "qgemm/v1/debug.grpc.pb.h"
#include "tests/support/child_process.h"
#include "tests/support/tampering_proxy.h"

namespace qgemm::loadtest {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kProgram[] = "loadtest/qgemm_loadtest";
constexpr int kForEver = 1 << 20;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

json ReportAt(const std::string& path) {
  json report =
      json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(report.is_object()) << path;
  return report;
}

// A server on a Unix socket in a folder of its own.
class LoadtestProcessTest : public testing::Test {
 protected:
  LoadtestProcessTest() {
    char name[] = "/tmp/qgemm_XXXXXX";
    folder_ = mkdtemp(name);
    StartServer({});
  }

  ~LoadtestProcessTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void StartServer(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--listen=" + target(), "--backend=cpu",
                                 "--lane_listen=unix:" + Path("lane"),
                                 "--enable_echo", "--enable_freeze"});
    server_ = std::make_unique<ChildProcess>("server/qgemm_server", flags);
    server_->WaitForOutput("serving on ");
  }

  void KillServer() {
    server_->Signal(SIGKILL);
    server_->Wait();
    unlink(Path("socket").c_str());
    unlink(Path("lane").c_str());
  }

  std::string Path(const std::string& file) const {
    return absl::StrCat(folder_, "/", file);
  }
  std::string target() const { return "unix:" + Path("socket"); }

  // The load test at the server, with a report at Path("report").
  std::unique_ptr<ChildProcess> Start(std::vector<std::string> flags) {
    flags.insert(flags.begin(),
                 {"--server=" + target(), "--json=" + Path("report")});
    return std::make_unique<ChildProcess>(kProgram, flags);
  }

  // Runs to the end; the exit code.
  int Run(std::vector<std::string> flags, std::string* output = nullptr) {
    const auto process = Start(std::move(flags));
    const int code = process->Wait();
    if (output != nullptr) *output = process->output();
    if (code != 0) last_output_ = process->output();
    return code;
  }

  // A run of a fraction of a second.
  static std::vector<std::string> Brief(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--duration=300ms", "--warmup=50ms"});
    return flags;
  }

  void Freeze(int milliseconds) {
    const auto stub = v1::QgemmDebug::NewStub(
        grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::FreezeRequest request;
    request.set_duration_ns(int64_t{1000000} * milliseconds);
    v1::FreezeResponse response;
    const grpc::Status status = stub->Freeze(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  std::string folder_;
  std::unique_ptr<ChildProcess> server_;
  std::string last_output_;  // of a run that did not pass
};

// The heart of an honest load test: four requests meet the freeze, and two
// hundred were due during it.
TEST_F(LoadtestProcessTest, AFreezeIsShownInFullFromTheIntendedStart) {
  const auto process =
      Start({"--synthetic=64x64", "--rate=1000", "--arrivals=constant",
             "--concurrency=4", "--warmup=0s", "--duration=4s", "--live=on",
             "--max_lag=10s"});
  process->WaitForOutput("answers/s");  // it runs
  constexpr int kFreezeMs = 200;
  Freeze(kFreezeMs);
  ASSERT_EQ(process->Wait(), 0) << process->output();
  const json report = ReportAt(Path("report"));
  ASSERT_EQ(report["runs"].size(), 1u);
  const json& run = report["runs"][0];
  // The arrival that was due when the freeze began waited for all of it. The
  // 4000 answers have 40 above p99 and 4 above p99.9: of the 200 that were due
  // during the freeze the 4th slowest waited 196 ms. What is due comes at most
  // a millisecond apart, so it is a few less than 200 however the freeze falls.
  constexpr double kFreezeUs = kFreezeMs * 1000;
  EXPECT_GE(run["latency_us"]["p99.9"], kFreezeUs * 0.95);
  // From the send the four that were in flight saw it, and nobody else.
  EXPECT_LT(run["send_latency_us"]["p99"], kFreezeUs / 2);
  EXPECT_GE(run["send_latency_us"]["max"], kFreezeUs * 0.95);
}

// Requests that a layer of the disk answers come after each of the kills.
TEST_F(LoadtestProcessTest, AKilledServerServesOnFromItsStateDirectory) {
  const std::vector<std::string> flags = {"--state_dir=" + Path("state"),
                                          "--slow_request=1ns"};
  KillServer();
  StartServer(flags);
  const auto process =
      Start({"--synthetic=256x128", "--layers=6", "--format=kbit4,q4_0",
             "--concurrency=4", "--verify=all", "--live=on",
             "--allow_errors=UNAVAILABLE", "--warmup=0s",
             absl::StrCat("--duration=", kForEver, "s")});
  process->WaitForOutput("answers/s");
  for (int kill = 0; kill < 3; ++kill) {
    KillServer();
    StartServer(flags);
    // One was answered.
    EXPECT_NE(server_->WaitForOutput("] slow_request "), "")
        << server_->output();
  }
  process->Signal(SIGINT);
  // All else that is wrong goes before the interruption.
  EXPECT_EQ(process->Wait(), static_cast<int>(Verdict::kInterrupted))
      << process->output();
  const json report = ReportAt(Path("report"));
  EXPECT_GT(report["runs"][0]["errors"]["UNAVAILABLE"]["count"], 0);
  EXPECT_EQ(report["runs"][0]["errors"].size(), 1u) << report["runs"][0];
  EXPECT_EQ(report["verify"]["answers_different"], 0);
  EXPECT_GT(report["verify"]["answers_compared"], 0);
}

TEST_F(LoadtestProcessTest, OneFlippedBitIn10000AnswersIsCaught) {
  TamperingOptions tampering;
  tampering.every = 10000;
  tampering.bit = 0;
  TamperingProxy proxy(target(), tampering);
  ChildProcess process(
      kProgram, {"--server=" + proxy.address(), "--synthetic=64x64",
                 "--concurrency=16", "--verify=all",
                 absl::StrCat("--duration=", kForEver, "s"), "--live=on"});
  // It runs until the proxy has done its deed.
  while (proxy.flipped() == 0) process.WaitForOutput("answers/s");
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), static_cast<int>(Verdict::kWrongAnswer))
      << process.output();
  EXPECT_THAT(process.output(), HasSubstr("differ in their bits"));
}

TEST_F(LoadtestProcessTest, AHealthyRunOfEveryFormatPasses) {
  const std::string formats =
      "--format=kbit2,kbit3,kbit4,kbit5,q4_0,ternary,int4,int4-asymmetric,"
      "fp16,bf16";
  EXPECT_EQ(Run(Brief({"--synthetic=256x128", "--verify=all", formats,
                       "--concurrency=4", "--m=1:0.5,5:0.5", "--inputs=2"})),
            0)
      << last_output_;
  const json report = ReportAt(Path("report"));
  EXPECT_EQ(report["weights"]["layers"], 10);
  EXPECT_GT(report["verify"]["answers_compared"], 100);
  // Every element of an answer to each of 10 layers, 2 sizes and 2 inputs; of
  // more of them a short run may leave one out.
  EXPECT_EQ(report["verify"]["elements_checked"], 10 * 128 * (1 + 5) * 2);
  EXPECT_LE(report["verify"]["worst_tolerance_used"], 1);
}

TEST_F(LoadtestProcessTest, PoissonArrivalsKeepTheirRate) {
  ASSERT_EQ(Run({"--synthetic=64x64", "--rate=500", "--warmup=100ms",
                 "--duration=2s", "--max_lag=1s"}),
            0)
      << last_output_;
  const json run = ReportAt(Path("report"))["runs"][0];
  EXPECT_GE(run["sent"].get<double>(), 0.99 * run["due"].get<double>());
  EXPECT_EQ(run["answers"], run["sent"]);
  EXPECT_EQ(run["lag_us"]["count"], run["sent"]);
}

TEST_F(LoadtestProcessTest, AWalkWithPrefillAndChurnIsVerified) {
  std::ofstream(Path("file")) << R"({"blocks": 3, "layers": [
      {"name": "q", "k": 128, "n": 64}, {"name": "down", "k": 64, "n": 128}]})";
  EXPECT_EQ(Run(Brief({"--walk=" + Path("file"), "--concurrency=3",
                       "--prefill_clients=1", "--prefill_m=96", "--churn=64x64",
                       "--churn_rate=50", "--verify=all"})),
            0)
      << last_output_;
  const json report = ReportAt(Path("report"));
  EXPECT_EQ(report["weights"]["layers"], 6);
  ASSERT_EQ(report["runs"][0]["classes"].size(), 2u);
  EXPECT_GT(report["runs"][0]["classes"][1]["latency_us"]["count"], 0);
  EXPECT_GT(report["runs"][0]["uploads"], 0);
}

// Two layers and a head.
constexpr char kSmallModel[] = R"({"blocks": 2, "hidden": 64,
    "feed_forward": 96, "key_value": 32, "vocabulary": 128})";

TEST_F(LoadtestProcessTest, AWalkByProgramsIsACallALayerAndTheHead) {
  std::ofstream(Path("file")) << kSmallModel;
  for (const std::string transport : {"call", "stream"}) {
    SCOPED_TRACE(transport);
    std::string output;
    ASSERT_EQ(Run(Brief({"--program_walk=" + Path("file"), "--concurrency=3",
                         "--transport=" + transport, "--verify=all"}),
                  &output),
              0)
        << last_output_;
    EXPECT_THAT(output, AllOf(HasSubstr("m=1 bf16 programs"),
                              HasSubstr("a token of 3 calls")));
    const json report = ReportAt(Path("report"));
    EXPECT_EQ(report["weights"]["layers"], 15);
    EXPECT_EQ(report["weights"]["programs"], 3);
    const json& run = report["runs"][0];
    EXPECT_EQ(run["calls_of_token"], 3);
    EXPECT_NEAR(run["tokens_per_second"],
                run["rows_per_second"].get<double>() / 3, 1e-6);
    // One of each request alone, of 3 programs and 8 inputs, and every answer.
    EXPECT_GE(report["verify"]["answers_compared"].get<int64_t>(),
              3 * 8 + run["answers"].get<int64_t>());
    EXPECT_EQ(report["verify"]["answers_different"], 0);
  }
}

TEST_F(LoadtestProcessTest, RowsOfAClientGoInPartsOverSeveralConnections) {
  std::ofstream(Path("file")) << kSmallModel;
  ASSERT_EQ(Run(Brief({"--program_walk=" + Path("file"), "--m=10", "--parts=4",
                       "--verify=all", "--format=fp16"})),
            0)
      << last_output_;
  const json run = ReportAt(Path("report"))["runs"][0];
  EXPECT_EQ(run["classes"][0]["name"], "m=10 in 4 parts");
  EXPECT_EQ(run["rows"].get<int64_t>(), 10 * run["answers"].get<int64_t>());
  EXPECT_GT(run["bytes_received"], 0);
  EXPECT_LE(run["server"]["launch_rows"]["max"], 10);
}

TEST_F(LoadtestProcessTest, ProgramsStayForALaterRunUntilTeardown) {
  std::ofstream(Path("file")) << kSmallModel;
  const std::string walk = "--program_walk=" + Path("file");
  ASSERT_EQ(Run({walk, "--teardown=false", "--duration=0s"}), 0)
      << last_output_;
  EXPECT_EQ(Run(Brief({walk, "--setup=false", "--verify=sample"})), 0)
      << last_output_;
  EXPECT_EQ(Run(Brief({walk, "--setup=false"})),
            static_cast<int>(Verdict::kNotStarted));
  EXPECT_THAT(last_output_, HasSubstr("NOT_FOUND"));
}

TEST_F(LoadtestProcessTest, CancelsDeadlinesAndCutsAreNoErrors) {
  EXPECT_EQ(Run(Brief({"--synthetic=512x512", "--concurrency=8",
                       "--cancel_rate=0.3", "--disconnect_rate=20",
                       "--deadline=50ms", "--channels=2", "--verify=all"})),
            0)
      << last_output_;
  const json run = ReportAt(Path("report"))["runs"][0];
  EXPECT_GT(run["cancelled"], 0);
  EXPECT_GT(run["answers"], 0);
}

TEST_F(LoadtestProcessTest, TheBaselineAddsUpAndCountsEchoes) {
  ASSERT_EQ(Run(Brief({"--synthetic=64x64", "--baseline", "--concurrency=3"})),
            0)
      << last_output_;
  const json report = ReportAt(Path("report"));
  ASSERT_TRUE(report.contains("baseline"));
  EXPECT_EQ(report["baseline"]["bytes_out"], 64 * 2);
  EXPECT_EQ(report["baseline"]["bytes_back"], 64 * 2);
  EXPECT_GT(report["baseline"]["echo_us"]["count"], 0);
  EXPECT_GT(report["baseline"]["gemm_us"]["p50"],
            report["baseline"]["device_us"]["p50"]);
  ASSERT_TRUE(report["baseline"].contains("echo_rate"));
  EXPECT_EQ(report["baseline"]["echo_rate"]["clients"], 3);
  EXPECT_GT(report["baseline"]["echo_rate"]["per_second"], 0);
}

TEST_F(LoadtestProcessTest, ASweepHasARunAPoint) {
  ASSERT_EQ(Run(Brief({"--synthetic=64x64", "--sweep=concurrency=1,2,4"})), 0)
      << last_output_;
  const json report = ReportAt(Path("report"));
  ASSERT_EQ(report["runs"].size(), 3u);
  EXPECT_EQ(report["runs"][2]["label"], "concurrency=4");
  EXPECT_EQ(report["runs"][2]["concurrency"], 4);
}

TEST_F(LoadtestProcessTest, APeakIsFoundAndConfirmed) {
  std::string output;
  ASSERT_EQ(
      Run({"--synthetic=64x64", "--find_peak", "--slo=p50=20ms", "--rate=2000",
           "--duration=200ms", "--warmup=20ms", "--max_lag=10s"},
          &output),
      0)
      << last_output_;
  const json report = ReportAt(Path("report"));
  ASSERT_TRUE(report.contains("peak"));
  EXPECT_TRUE(report["peak"]["confirmed"]);
  EXPECT_GT(report["peak"]["rate"], 0);
  EXPECT_THAT(output, HasSubstr("peak "));
}

TEST_F(LoadtestProcessTest, SetupStaysForALaterRunUntilTeardown) {
  EXPECT_EQ(Run({"--synthetic=64x64", "--layers=2", "--teardown=false",
                 "--duration=0s"}),
            0)
      << last_output_;
  const std::vector<std::string> use = Brief(
      {"--synthetic=64x64", "--layers=2", "--setup=false", "--verify=all"});
  std::vector<std::string> keep = use;
  keep.push_back("--teardown=false");
  EXPECT_EQ(Run(keep), 0) << last_output_;
  EXPECT_GT(ReportAt(Path("report"))["verify"]["elements_checked"], 0);
  EXPECT_EQ(Run(use), 0) << last_output_;
  EXPECT_EQ(Run(use), static_cast<int>(Verdict::kNotStarted));
  EXPECT_THAT(last_output_, HasSubstr("NOT_FOUND"));
}

TEST_F(LoadtestProcessTest, AMissedSloIsAnExitCode) {
  EXPECT_EQ(Run(Brief({"--synthetic=64x64", "--slo=p50=1us"})),
            static_cast<int>(Verdict::kSloMissed));
  EXPECT_THAT(last_output_, HasSubstr("above 1us"));
}

TEST_F(LoadtestProcessTest, ALateGeneratorIsAnExitCode) {
  EXPECT_EQ(Run(Brief({"--synthetic=64x64", "--rate=1000", "--max_lag=1us"})),
            static_cast<int>(Verdict::kLag));
  EXPECT_THAT(last_output_, HasSubstr("--max_lag=1us"));
}

TEST_F(LoadtestProcessTest, AMissingWeightSaysSo) {
  EXPECT_EQ(Run(Brief({"--weights=no/such"})),
            static_cast<int>(Verdict::kNotStarted));
  EXPECT_THAT(last_output_,
              AllOf(HasSubstr("no/such"), HasSubstr("NOT_FOUND")));
  EXPECT_EQ(ReportAt(Path("report"))["exit_code"],
            static_cast<int>(Verdict::kNotStarted));
}

TEST_F(LoadtestProcessTest, NoServerSaysSo) {
  ChildProcess process(
      kProgram, {"--server=unix:" + Path("nobody"), "--connect_timeout=100ms",
                 "--synthetic=64x64"});
  EXPECT_EQ(process.Wait(), static_cast<int>(Verdict::kNotStarted));
  EXPECT_THAT(process.output(), HasSubstr("no connection within"));
}

TEST_F(LoadtestProcessTest, NonsenseFlagsSayWhatIsLegal) {
  for (const auto& [flag, word] :
       std::vector<std::pair<std::string, std::string>>{
           {"--rate=-5", "--rate"},
           {"--sweep=colour=red", "--sweep"},
           {"--m=0", "--m"},
           {"--find_peak", "--slo"},
           {"--walk=gpt-9", "llama3-8b"},
           {"--no_such_flag=1", "--help"},
           {"--transport=udp", "stream"}}) {
    std::vector<std::string> flags = {flag};
    if (flag.rfind("--walk", 0) != 0) flags.push_back("--synthetic=64x64");
    EXPECT_EQ(Run(flags), static_cast<int>(Verdict::kUsage)) << flag;
    EXPECT_THAT(last_output_, HasSubstr(word)) << flag;
  }
}

TEST_F(LoadtestProcessTest, CtrlCReportsWhatWasMeasured) {
  const auto process =
      Start({"--synthetic=64x64", absl::StrCat("--duration=", kForEver, "s"),
             "--warmup=0s", "--live=on"});
  process->WaitForOutput("answers/s");
  process->Signal(SIGINT);
  EXPECT_EQ(process->Wait(), static_cast<int>(Verdict::kInterrupted))
      << process->output();
  const json report = ReportAt(Path("report"));
  ASSERT_EQ(report["runs"].size(), 1u);
  EXPECT_GT(report["runs"][0]["answers"], 0);
  EXPECT_LT(report["runs"][0]["due_time_s"], kForEver);
  EXPECT_THAT(process->output(), HasSubstr("stopped by a signal"));
}

TEST_F(LoadtestProcessTest, ADyingServerLeavesAPartialReport) {
  const auto process =
      Start({"--synthetic=64x64", "--warmup=0s", "--duration=2s", "--live=on"});
  process->WaitForOutput("answers/s");
  server_->Signal(SIGKILL);
  server_->Wait();
  EXPECT_EQ(process->Wait(), static_cast<int>(Verdict::kErrors))
      << process->output();
  EXPECT_THAT(process->output(), HasSubstr("UNAVAILABLE"));
  const json report = ReportAt(Path("report"));
  ASSERT_EQ(report["runs"].size(), 1u);
  EXPECT_GT(report["runs"][0]["answers"], 0);
  EXPECT_GT(report["runs"][0]["error_count"], 0);
}

TEST_F(LoadtestProcessTest, AFullDiskIsAnExitCodeAndTheTableStillComes) {
  ChildProcess process(
      kProgram,
      Brief({"--server=" + target(), "--synthetic=64x64", "--json=/dev/full"}));
  EXPECT_EQ(process.Wait(), static_cast<int>(Verdict::kNotWritten));
  EXPECT_THAT(process.output(),
              AllOf(HasSubstr("throughput"), HasSubstr("/dev/full")));
}

TEST_F(LoadtestProcessTest, LanesGiveTheSameBits) {
  EXPECT_EQ(Run(Brief({"--synthetic=256x128", "--transport=lane",
                       "--concurrency=4", "--verify=all"})),
            0)
      << last_output_;
}

TEST_F(LoadtestProcessTest, TheGeneratorAloneNeedsNoServer) {
  ChildProcess process(kProgram,
                       {"--transport=null", "--synthetic=64x64", "--rate=20000",
                        "--duration=300ms", "--warmup=0s", "--max_lag=1s"});
  EXPECT_EQ(process.Wait(), 0) << process.output();
}

}  // namespace
}  // namespace qgemm::loadtest
