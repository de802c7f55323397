// SPDX-License-Identifier: Apache-2.0
//
// The JSON that programs read, and what counts as passed.

#include "client/loadtest/report.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

// 100 answers of 1 ms to 100 ms in 2 s, 4 rows each.
LoadtestReport GoodReport() {
  LoadtestReport report;
  report.options.server = "unix:/run/qgemm.sock";
  report.options.m = 4;
  report.started_at = absl::FromUnixSeconds(0);
  for (int i = 1; i <= 100; ++i) {
    report.loop.latency.Record(absl::Milliseconds(i));
    ServerTimings timings;
    timings.kernel = absl::Microseconds(i);
    timings.launch_rows = 8;
    report.loop.server.Add(timings);
  }
  report.loop.measured = absl::Seconds(2);
  return report;
}

nlohmann::json JsonOf(const LoadtestReport& report) {
  return nlohmann::json::parse(FormatJson(report));
}

TEST(LoadtestReport, RatesFollowFromCountRowsAndTime) {
  const nlohmann::json results = JsonOf(GoodReport())["results"];
  EXPECT_EQ(results["requests"], 100);
  EXPECT_DOUBLE_EQ(results["requests_per_second"], 50.0);
  EXPECT_DOUBLE_EQ(results["rows_per_second"], 200.0);
}

TEST(LoadtestReport, JsonNamesItsSchemaAndStart) {
  const nlohmann::json json = JsonOf(GoodReport());
  EXPECT_EQ(json["schema"], "qgemm.loadtest");
  EXPECT_EQ(json["schema_version"], kReportSchemaVersion);
  EXPECT_EQ(json["started_at"], "1970-01-01T00:00:00+00:00");
}

TEST(LoadtestReport, JsonHasLatencyPercentilesInMicroseconds) {
  const nlohmann::json latency = JsonOf(GoodReport())["results"]["latency_us"];
  // Within a bucket, 1/1024 of the value.
  EXPECT_NEAR(latency["p50"], 50000.0, 50000.0 / 1024);
  EXPECT_NEAR(latency["p99"], 99000.0, 99000.0 / 1024);
  EXPECT_DOUBLE_EQ(latency["max"], 100000.0);
}

TEST(LoadtestReport, JsonHasTheServersMeans) {
  const nlohmann::json means = JsonOf(GoodReport())["results"]["server_means"];
  EXPECT_DOUBLE_EQ(means["kernel_us"], 50.5);
  EXPECT_DOUBLE_EQ(means["launch_rows"], 8.0);
}

TEST(LoadtestReport, AnErrorFailsItAndIsNamed) {
  LoadtestReport report = GoodReport();
  report.loop.errors[absl::StatusCode::kNotFound] = {3, "weights \"x\""};
  EXPECT_FALSE(report.passed());
  const nlohmann::json errors = JsonOf(report)["results"]["errors"];
  EXPECT_EQ(errors["NOT_FOUND"]["count"], 3);
  EXPECT_THAT(FormatTable(report), testing::HasSubstr("3 NOT_FOUND"));
}

TEST(LoadtestReport, AWrongAnswerFailsIt) {
  LoadtestReport report = GoodReport();
  report.options.verify = VerifyMode::kAll;
  report.verify.status = absl::DataLossError("row 1 column 2");
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(FormatTable(report), testing::HasSubstr("row 1 column 2"));
}

TEST(LoadtestReport, NoAnswerAtAllFailsIt) {
  LoadtestReport report = GoodReport();
  EXPECT_TRUE(report.passed());
  report.loop.latency = LatencyRecorder();
  report.loop.measured = absl::ZeroDuration();
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(JsonOf(report)["results"]["requests_per_second"], 0.0);
}

TEST(LoadtestReport, WeightsLeftBehindFailIt) {
  LoadtestReport report = GoodReport();
  report.cleanup = absl::UnavailableError("connection refused");
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(FormatTable(report), testing::HasSubstr("connection refused"));
}

TEST(LoadtestReport, AnInterruptedRunSaysSo) {
  LoadtestReport report = GoodReport();
  report.loop.interrupted = true;
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(JsonOf(report)["results"]["interrupted"]);
  EXPECT_THAT(FormatTable(report), testing::HasSubstr("interrupted"));
}

TEST(LoadtestReport, MessagesThatAreNotUtf8StillMakeJson) {
  LoadtestReport report = GoodReport();
  report.loop.errors[absl::StatusCode::kInternal] = {1, "bad \xff byte"};
  EXPECT_FALSE(JsonOf(report).is_discarded());
}

}  // namespace
}  // namespace qgemm
