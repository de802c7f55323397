// SPDX-License-Identifier: Apache-2.0
//
// Fields that tools and people read. browser_test.py draws a whole report.

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// 100 answers of 1 ms to 100 ms in 2 s, 4 rows each.
LoadtestReport GoodReport() {
  LoadtestReport report;
  report.options = {{"server", "unix:/run/qgemm.sock"}, {"m", "4"}};
  report.changed_options = {"m"};
  report.started_at = absl::UnixEpoch();
  RunResult& run = report.runs.emplace_back();
  run.measured = absl::Seconds(2);
  run.due_time = absl::Seconds(2);
  run.answers = 100;
  run.rows = 400;
  run.client_cpu = absl::Milliseconds(5);
  ClassResult& only = run.classes.emplace_back();
  only.name = "m=4";
  only.m = 4;
  for (int64_t i = 1; i <= 100; ++i) {
    only.latency_ns.Record(i * 1'000'000);
    only.send_latency_ns.Record(i * 500'000);
    run.server.kernel_ns.Record(i * 1000);
    run.server.launch_rows.Record(8);
  }
  return report;
}

json JsonOf(const LoadtestReport& report) {
  return json::parse(FormatJson(report), nullptr, false);
}

std::vector<std::string> KeysOf(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(ReportJson, HasEveryFieldThatReadersKnow) {
  LoadtestReport good = GoodReport();
  good.calls_of_token = 8;
  good.runs[0].series.emplace_back();
  const json report = JsonOf(good);
  EXPECT_EQ(report["schema"], "qgemm.loadtest");
  EXPECT_EQ(report["schema_version"], 3);
  EXPECT_EQ(report["started_at"], "1970-01-01T00:00:00+00:00");
  EXPECT_THAT(
      KeysOf(report),
      testing::UnorderedElementsAre(
          "schema", "schema_version", "started_at", "title", "command",
          "verdict", "exit_code", "findings", "options", "changed_options",
          "environment", "weights", "verify", "headline", "runs"));
  EXPECT_THAT(
      KeysOf(report["runs"][0]),
      testing::UnorderedElementsAre(
          "label", "interrupted", "asked_rate", "concurrency", "warmup_s",
          "measured_s", "due_time_s", "client_cpu_s", "server_cpu_s",
          "answers_per_second", "rows_per_second", "calls_of_token",
          "tokens_per_second", "client_tokens_per_second", "token_ms",
          "achieved_rate", "latency_us", "send_latency_us",
          "client_cpu_us_an_answer", "server_cpu_us_an_answer", "due", "sent",
          "answers", "rows", "bytes_sent", "bytes_received", "warmup_answers",
          "expired", "cancelled", "disconnected", "uploads", "error_count",
          "errors", "lag_us", "lag_ns", "classes", "server", "series",
          "blocks_ns"));
  EXPECT_THAT(
      KeysOf(report["runs"][0]["series"][0]),
      testing::UnorderedElementsAre("start_s", "length_s", "answers", "rows",
                                    "errors", "p50_ns", "p99_ns", "max_ns",
                                    "in_flight", "max_lag_ns", "launch_rows"));
}

TEST(ReportJson, HasRatesAndPercentilesForPeople) {
  const json run = JsonOf(GoodReport())["runs"][0];
  EXPECT_EQ(run["answers_per_second"], 50.0);
  EXPECT_EQ(run["rows_per_second"], 200.0);
  EXPECT_EQ(run["client_cpu_us_an_answer"], 50.0);
  // A bucket is 1/1024 of its value wide.
  EXPECT_NEAR(run["latency_us"]["p50"], 50000.0, 50000.0 / 1024);
  EXPECT_NEAR(run["send_latency_us"]["p99"], 49500.0, 49500.0 / 1024);
  EXPECT_EQ(run["latency_us"]["max"], 100000.0);
  EXPECT_EQ(run["server"]["kernel_us"]["mean"], 50.5);
  EXPECT_EQ(run["server"]["launch_rows"]["mean"], 8.0);
  EXPECT_FALSE(run.contains("tokens_per_second"));
}

TEST(ReportJson, AWalksTokensPassThroughAllItsCalls) {
  LoadtestReport report = GoodReport();
  report.calls_of_token = 8;
  report.runs[0].concurrency = 5;
  const json run = JsonOf(report)["runs"][0];
  EXPECT_EQ(run["calls_of_token"], 8);
  EXPECT_EQ(run["tokens_per_second"], 200.0 / 8);
  EXPECT_EQ(run["client_tokens_per_second"], 200.0 / 8 / 5);
  // The mean of 1 to 100 ms, eight times.
  EXPECT_EQ(run["token_ms"], 50.5 * 8);
}

TEST(ReportJson, OpenArrivalsOfAWalkHaveNoClients) {
  LoadtestReport report = GoodReport();
  report.calls_of_token = 8;
  report.runs[0].asked_rate = 50;
  const json run = JsonOf(report)["runs"][0];
  EXPECT_TRUE(run.contains("tokens_per_second"));
  EXPECT_FALSE(run.contains("client_tokens_per_second"));
}

TEST(ReportJson, HistogramsAreWhole) {
  LoadtestReport report = GoodReport();
  Histogram& lag = report.runs[0].lag_ns;
  lag.Record(5, 2);
  lag.Record(3000);
  EXPECT_EQ(JsonOf(report)["runs"][0]["lag_ns"],
            json({{"min", 5},
                  {"max", 3000},
                  {"sum", 3010.0},
                  {"buckets", {{5, 5, 2}, {3000, 3001, 1}}}}));
}

TEST(ReportJson, OptionsKeepTheirOrder) {
  const std::string text = FormatJson(GoodReport());
  EXPECT_LT(text.find("\"server\":\"unix"), text.find("\"m\":\"4\""));
  EXPECT_EQ(JsonOf(GoodReport())["changed_options"], json({"m"}));
}

TEST(ReportJson, SaysTheVerdictAndTheExitCode) {
  LoadtestReport report = GoodReport();
  EXPECT_EQ(JsonOf(report)["verdict"], "passed");
  EXPECT_EQ(JsonOf(report)["exit_code"], 0);
  report.findings.push_back({Verdict::kSloMissed, "p99 is 812 us"});
  EXPECT_EQ(JsonOf(report)["verdict"], "slo missed");
  EXPECT_EQ(JsonOf(report)["exit_code"], 3);
}

TEST(ReportJson, HasErrorsByCode) {
  LoadtestReport report = GoodReport();
  report.runs[0].errors[absl::StatusCode::kNotFound] = {3, "weights \"x\""};
  Histogram& after =
      report.runs[0].errors[absl::StatusCode::kInternal].latency_ns.emplace();
  after.Record(2000);
  const json run = JsonOf(report)["runs"][0];
  EXPECT_EQ(run["errors"]["NOT_FOUND"]["count"], 3);
  EXPECT_EQ(run["errors"]["NOT_FOUND"]["first_message"], "weights \"x\"");
  EXPECT_EQ(run["errors"]["INTERNAL"]["latency"]["us"]["p50"], 2.0);
  EXPECT_EQ(run["error_count"], 3);
}

TEST(ReportJson, TheBaselineHasItsOverhead) {
  LoadtestReport report = GoodReport();
  Baseline& baseline = report.baseline.emplace();
  baseline.echo_ns.Record(300);
  baseline.gemm_ns.Record(1000);
  EXPECT_TRUE(JsonOf(report)["baseline"]["overhead_us"].is_null());
  baseline.device_ns.Record(200);
  baseline.echo_rate = EchoRate{4, 1000};
  EXPECT_EQ(JsonOf(report)["baseline"]["overhead_us"], 0.5);
  EXPECT_EQ(JsonOf(report)["baseline"]["echo_rate"]["clients"], 4);
}

TEST(ReportJson, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  LoadtestReport report = GoodReport();
  report.runs[0].errors[absl::StatusCode::kInternal] = {1, "bad \xff byte"};
  report.options.emplace_back("key \xff", "value \xff");
  EXPECT_EQ(JsonOf(report)["runs"][0]["errors"]["INTERNAL"]["first_message"],
            "bad \xef\xbf\xbd byte");
}

TEST(ReportJson, NumbersThatAreNotFiniteAreNull) {
  LoadtestReport report = GoodReport();
  report.verify.worst_tolerance_used = HUGE_VAL;
  EXPECT_TRUE(JsonOf(report)["verify"]["worst_tolerance_used"].is_null());
}

TEST(ReportJson, EveryFieldOfTheReportIsALine) {
  EXPECT_THAT(FormatJson(GoodReport()),
              testing::AllOf(HasSubstr("\n \"schema_version\": 3,\n"),
                             HasSubstr("[[999936,1000447,1],")));
}

}  // namespace
}  // namespace qgemm::loadtest
