// SPDX-License-Identifier: Apache-2.0
//
// Reports through JSON and back, broken JSON, and the fields that people read.

#include "loadtest/report/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "loadtest/report/report_table.h"
#include "loadtest/report/series_csv.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report/random_report.h"

namespace qgemm {
namespace {

using testing::HasSubstr;

void ExpectSame(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.min(), b.min());
  EXPECT_EQ(a.max(), b.max());
  for (double percent : {50.0, 99.0, 99.9}) {
    EXPECT_EQ(a.Percentile(percent), b.Percentile(percent));
  }
}

void ExpectSame(const ServerDescription& a, const ServerDescription& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.backend, b.backend);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.device_detail, b.device_detail);
  EXPECT_EQ(a.parallelism, b.parallelism);
  EXPECT_EQ(a.max_message_bytes, b.max_message_bytes);
  EXPECT_EQ(a.max_n, b.max_n);
  EXPECT_EQ(a.max_k, b.max_k);
  EXPECT_EQ(a.max_m, b.max_m);
  EXPECT_EQ(a.weights_bytes, b.weights_bytes);
  EXPECT_EQ(a.weights_budget_bytes, b.weights_budget_bytes);
  EXPECT_EQ(a.formats, b.formats);
  EXPECT_EQ(a.uptime, b.uptime);
}

void ExpectSame(const LoadtestEnvironment& a, const LoadtestEnvironment& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.client_cpus, b.client_cpus);
  EXPECT_EQ(a.client_cpu, b.client_cpu);
  EXPECT_EQ(a.client_system, b.client_system);
  EXPECT_EQ(a.transport, b.transport);
  ExpectSame(a.server, b.server);
}

void ExpectSame(const WeightsSummary& a, const WeightsSummary& b) {
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.formats, b.formats);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.resident_bytes, b.resident_bytes);
  EXPECT_EQ(a.largest_k, b.largest_k);
  EXPECT_EQ(a.largest_n, b.largest_n);
}

void ExpectSame(const SeriesPoint& a, const SeriesPoint& b) {
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.length, b.length);
  EXPECT_EQ(a.answers, b.answers);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.errors, b.errors);
  EXPECT_EQ(a.p50_ns, b.p50_ns);
  EXPECT_EQ(a.p99_ns, b.p99_ns);
  EXPECT_EQ(a.max_ns, b.max_ns);
  EXPECT_EQ(a.in_flight, b.in_flight);
  EXPECT_EQ(a.max_lag_ns, b.max_lag_ns);
  EXPECT_EQ(a.launch_rows, b.launch_rows);
}

void ExpectSame(const ServerTimes& a, const ServerTimes& b) {
  ExpectSame(a.queue_ns, b.queue_ns);
  ExpectSame(a.host_to_device_ns, b.host_to_device_ns);
  ExpectSame(a.kernel_ns, b.kernel_ns);
  ExpectSame(a.device_to_host_ns, b.device_to_host_ns);
  ExpectSame(a.device_ns, b.device_ns);
  ExpectSame(a.total_ns, b.total_ns);
  ExpectSame(a.launch_rows, b.launch_rows);
  ExpectSame(a.launch_requests, b.launch_requests);
}

void ExpectSame(const ClassResult& a, const ClassResult& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.m, b.m);
  ExpectSame(a.latency_ns, b.latency_ns);
  ExpectSame(a.send_latency_ns, b.send_latency_ns);
}

void ExpectSame(const Finding& a, const Finding& b) {
  EXPECT_EQ(a.verdict, b.verdict);
  EXPECT_EQ(a.message, b.message);
}

void ExpectSame(const RunResult& a, const RunResult& b);

template <typename Value>
void ExpectSame(const std::vector<Value>& a, const std::vector<Value>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ExpectSame(a[i], b[i]);
}

void ExpectSameCounts(const RunResult& a, const RunResult& b) {
  EXPECT_EQ(a.due, b.due);
  EXPECT_EQ(a.sent, b.sent);
  EXPECT_EQ(a.answers, b.answers);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.bytes_sent, b.bytes_sent);
  EXPECT_EQ(a.bytes_received, b.bytes_received);
  EXPECT_EQ(a.warmup_answers, b.warmup_answers);
  EXPECT_EQ(a.expired, b.expired);
  EXPECT_EQ(a.cancelled, b.cancelled);
  EXPECT_EQ(a.disconnected, b.disconnected);
  EXPECT_EQ(a.uploads, b.uploads);
  ASSERT_EQ(a.errors.size(), b.errors.size());
  for (const auto& [code, tally] : a.errors) {
    ASSERT_EQ(b.errors.count(code), 1);
    EXPECT_EQ(tally.count, b.errors.at(code).count);
    EXPECT_EQ(tally.first_message, b.errors.at(code).first_message);
  }
}

void ExpectSame(const RunResult& a, const RunResult& b) {
  EXPECT_EQ(a.label, b.label);
  EXPECT_EQ(a.asked_rate, b.asked_rate);
  EXPECT_EQ(a.concurrency, b.concurrency);
  EXPECT_EQ(a.warmup, b.warmup);
  EXPECT_EQ(a.measured, b.measured);
  EXPECT_EQ(a.due_time, b.due_time);
  ExpectSameCounts(a, b);
  ExpectSame(a.classes, b.classes);
  ExpectSame(a.lag_ns, b.lag_ns);
  ExpectSame(a.server, b.server);
  ExpectSame(a.series, b.series);
  ExpectSame(a.blocks_ns, b.blocks_ns);
  EXPECT_EQ(a.client_cpu, b.client_cpu);
  EXPECT_EQ(a.server_cpu, b.server_cpu);
  EXPECT_EQ(a.interrupted, b.interrupted);
}

void ExpectSame(const Yardstick& a, const Yardstick& b) {
  EXPECT_EQ(a.bytes_out, b.bytes_out);
  EXPECT_EQ(a.bytes_back, b.bytes_back);
  ExpectSame(a.echo_ns, b.echo_ns);
  ExpectSame(a.gemm_ns, b.gemm_ns);
  ExpectSame(a.device_ns, b.device_ns);
}

void ExpectSame(const PeakResult& a, const PeakResult& b) {
  EXPECT_EQ(a.slo, b.slo);
  EXPECT_EQ(a.rate, b.rate);
  EXPECT_EQ(a.confirmed, b.confirmed);
}

template <typename Value>
void ExpectSame(const std::optional<Value>& a, const std::optional<Value>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (a.has_value()) ExpectSame(*a, *b);
}

void ExpectSame(const VerifyReport& a, const VerifyReport& b) {
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.answers_compared, b.answers_compared);
  EXPECT_EQ(a.answers_different, b.answers_different);
  EXPECT_EQ(a.elements_checked, b.elements_checked);
  EXPECT_EQ(a.worst_tolerance_used, b.worst_tolerance_used);
  EXPECT_EQ(a.status, b.status);
}

void ExpectSame(const LoadtestReport& a, const LoadtestReport& b) {
  EXPECT_EQ(a.options, b.options);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.title, b.title);
  EXPECT_EQ(a.started_at, b.started_at);
  ExpectSame(a.environment, b.environment);
  ExpectSame(a.weights, b.weights);
  ExpectSame(a.runs, b.runs);
  EXPECT_EQ(a.headline, b.headline);
  ExpectSame(a.yardstick, b.yardstick);
  ExpectSame(a.peak, b.peak);
  ExpectSame(a.verify, b.verify);
  ExpectSame(a.findings, b.findings);
}

// 100 answers of 1 ms to 100 ms in 2 s, 4 rows each.
LoadtestReport GoodReport() {
  LoadtestReport report;
  report.options = {{"server", "unix:/run/qgemm.sock"}, {"m", "4"}};
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

nlohmann::json JsonOf(const LoadtestReport& report) {
  return nlohmann::json::parse(FormatJson(report), nullptr, false);
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<LoadtestReport> report = ParseReportJson(text);
  return std::string(report.status().message());
}

// The good report's JSON with `from` once replaced.
std::string ErrorAfterChange(const std::string& from, const std::string& to) {
  std::string text = FormatJson(GoodReport());
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from << " in " << text;
  if (place == std::string::npos) return "";
  return ErrorOf(text.replace(place, from.size(), to));
}

class ReportJsonTest : public testing::Test {
 protected:
  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(ReportJsonTest, ParseGivesBackWhatWasWritten) {
  RandomReport random(seed_);
  for (int i = 0; i < 30; ++i) {
    const LoadtestReport wrote = random.Report();
    const auto read = ParseReportJson(FormatJson(wrote));
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(wrote, *read);
  }
}

TEST_F(ReportJsonTest, TruncationsAreRefused) {
  RandomReport random(seed_);
  const std::string text = FormatJson(random.Report());
  std::mt19937 place(seed_);
  for (int i = 0; i < 100; ++i) {
    // Without the closing brace and the end of line, at least.
    const size_t length = place() % (text.size() - 1);
    EXPECT_FALSE(ParseReportJson(text.substr(0, length)).ok()) << length;
  }
}

TEST_F(ReportJsonTest, BrokenBytesNeverCrash) {
  std::mt19937 random(seed_);
  RandomReport reports(seed_);
  for (int report = 0; report < 5; ++report) {
    const std::string text = FormatJson(reports.Report());
    for (int i = 0; i < 200; ++i) {
      std::string broken = text;
      for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
        broken[random() % broken.size()] = static_cast<char>(random());
      }
      const auto read = ParseReportJson(broken);
      if (!read.ok()) {
        EXPECT_FALSE(read.status().message().empty());
        continue;
      }
      EXPECT_FALSE(FormatTable(*read).empty());
      EXPECT_FALSE(FormatSeriesCsv(*read).empty());
    }
  }
}

TEST_F(ReportJsonTest, NamesItsSchemaAndStart) {
  const nlohmann::json json = JsonOf(GoodReport());
  EXPECT_EQ(json["schema"], "qgemm.loadtest");
  EXPECT_EQ(json["schema_version"], kReportSchemaVersion);
  EXPECT_EQ(json["started_at"], "1970-01-01T00:00:00+00:00");
}

TEST_F(ReportJsonTest, HasRatesAndPercentilesForPeople) {
  const nlohmann::json json = JsonOf(GoodReport());
  const nlohmann::json& run = json["runs"][0];
  EXPECT_EQ(run["answers_per_second"], 50.0);
  EXPECT_EQ(run["rows_per_second"], 200.0);
  EXPECT_EQ(run["client_cpu_us_an_answer"], 50.0);
  // Within a bucket, 1/1024 of the value.
  EXPECT_NEAR(run["latency_us"]["p50"], 50000.0, 50000.0 / 1024);
  EXPECT_NEAR(run["send_latency_us"]["p99"], 49500.0, 49500.0 / 1024);
  EXPECT_EQ(run["latency_us"]["max"], 100000.0);
  EXPECT_EQ(run["server"]["kernel_us"]["mean"], 50.5);
  EXPECT_EQ(run["server"]["launch_rows"]["mean"], 8.0);
}

TEST_F(ReportJsonTest, OptionsKeepTheirOrder) {
  const auto read = ParseReportJson(FormatJson(GoodReport()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->options.front().first, "server");
  EXPECT_EQ(read->options.back().first, "m");
}

TEST_F(ReportJsonTest, SaysTheVerdictAndTheExitCode) {
  LoadtestReport report = GoodReport();
  EXPECT_EQ(JsonOf(report)["verdict"], "passed");
  EXPECT_EQ(JsonOf(report)["exit_code"], 0);
  report.findings.push_back({Verdict::kSloMissed, "p99 is 812 us"});
  EXPECT_EQ(JsonOf(report)["verdict"], "slo missed");
  EXPECT_EQ(JsonOf(report)["exit_code"], 3);
}

TEST_F(ReportJsonTest, HasErrorsByCode) {
  LoadtestReport report = GoodReport();
  report.runs[0].errors[absl::StatusCode::kNotFound] = {3, "weights \"x\""};
  const nlohmann::json json = JsonOf(report);
  EXPECT_EQ(json["runs"][0]["errors"]["NOT_FOUND"]["count"], 3);
  EXPECT_EQ(json["runs"][0]["error_count"], 3);
}

TEST_F(ReportJsonTest, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  LoadtestReport report = GoodReport();
  report.runs[0].errors[absl::StatusCode::kInternal] = {1, "bad \xff byte"};
  report.options.emplace_back("key \xff", "value \xff");
  const auto read = ParseReportJson(FormatJson(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->runs[0].errors.at(absl::StatusCode::kInternal).first_message,
            "bad \xef\xbf\xbd byte");
}

TEST_F(ReportJsonTest, NumbersThatAreNotFiniteComeBackAsNan) {
  LoadtestReport report = GoodReport();
  report.verify.worst_tolerance_used = HUGE_VAL;
  const auto read = ParseReportJson(FormatJson(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->verify.worst_tolerance_used));
}

TEST_F(ReportJsonTest, RefusesWhatIsNoReport) {
  EXPECT_THAT(ErrorOf("hello"), HasSubstr("not JSON (5 bytes)"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("must be an object, is array"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("schema: is missing"));
  EXPECT_THAT(ErrorOf(R"({"schema": "other"})"), HasSubstr("\"other\""));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("not JSON"));
}

TEST_F(ReportJsonTest, RefusesOtherVersions) {
  EXPECT_THAT(ErrorAfterChange(": 2,", ": 3,"),
              HasSubstr("schema_version: is 3, newer than 2"));
  EXPECT_THAT(ErrorAfterChange(": 2,", ": 1,"),
              HasSubstr("schema_version: is 1, older than 2"));
  EXPECT_THAT(ErrorAfterChange(": 2,", ": \"2\","),
              HasSubstr("schema_version: must be a whole number"));
}

TEST_F(ReportJsonTest, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(ErrorAfterChange("\"answers\": 100", "\"answers\": -100"),
              HasSubstr("runs[0].answers: must be a whole number from 0 to "
                        "9007199254740992, is -100"));
  EXPECT_THAT(ErrorAfterChange("\"answers\": 100", "\"answers\": 1.5"),
              HasSubstr("runs[0].answers: must be a whole number"));
  EXPECT_THAT(
      ErrorAfterChange("\"answers\": 100", "\"answers\": 18446744073709551615"),
      HasSubstr("runs[0].answers: must be a whole number"));
  EXPECT_THAT(ErrorAfterChange("\"sent\"", "\"send\""),
              HasSubstr("runs[0].sent: is missing"));
  EXPECT_THAT(ErrorAfterChange("\"m\":\"4\"", "\"m\":4"),
              HasSubstr("options.m: must be a string, is number"));
  EXPECT_THAT(ErrorAfterChange("\"measured_s\": 2.0", "\"measured_s\": -2.0"),
              HasSubstr("runs[0].measured_s: must be 0 to"));
  EXPECT_THAT(ErrorAfterChange("\"headline\": 0", "\"headline\": 1"),
              HasSubstr("headline: 1 of 1 runs"));
  EXPECT_THAT(ErrorAfterChange("1970-01-01T", "yesterday"),
              HasSubstr("started_at: "));
  EXPECT_THAT(ErrorAfterChange("[999936,1000447,1]", "[999936,1000447]"),
              HasSubstr("runs[0].classes[0].latency_ns.buckets[0]: must be"));
}

TEST_F(ReportJsonTest, IgnoresFieldsThatItDoesNotKnow) {
  EXPECT_EQ(ErrorAfterChange("\"title\"", "\"later\": [1], \"title\""), "");
}

}  // namespace
}  // namespace qgemm
