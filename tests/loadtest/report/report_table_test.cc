// SPDX-License-Identifier: Apache-2.0
//
// The lines that people read.

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// 100 answers of 1 us to 100 us in 2 s, 4 rows each.
RunResult ClosedRun() {
  RunResult run;
  run.concurrency = 4;
  run.warmup = absl::Milliseconds(500);
  run.measured = absl::Seconds(2);
  run.due_time = absl::Seconds(2);
  run.due = 100;
  run.sent = 100;
  run.answers = 100;
  run.rows = 400;
  run.client_cpu = absl::Milliseconds(1);
  ClassResult& only = run.classes.emplace_back();
  only.name = "m=4";
  only.m = 4;
  for (int64_t i = 1; i <= 100; ++i) {
    only.latency_ns.Record(i * 1000);
    only.send_latency_ns.Record(i * 500);
    run.server.kernel_ns.Record(i * 100);
    run.server.launch_rows.Record(8);
    run.server.launch_requests.Record(2);
  }
  return run;
}

RunResult OpenRun() {
  RunResult run = ClosedRun();
  run.asked_rate = 50;
  run.due = 102;
  for (int64_t i = 1; i <= 100; ++i) run.lag_ns.Record(i);
  return run;
}

LoadtestReport ReportOf(const RunResult& run) {
  LoadtestReport report;
  report.options = {{"server", "unix:/run/qgemm.sock"},
                    {"dtype", "fp16"},
                    {"out_dtype", ""},
                    {"mode", "A16"}};
  report.environment.server.backend = "cpu";
  report.environment.server.device = "a processor";
  report.weights.text = "kbit4 64x32";
  report.weights.resident_bytes = 1234;
  report.runs.push_back(run);
  return report;
}

TEST(ReportTable, AClosedRunHasOneLatencyLine) {
  EXPECT_EQ(FormatTable(ReportOf(ClosedRun())),
            "server     unix:/run/qgemm.sock (cpu, a processor)\n"
            "weights    kbit4 64x32, 1234 resident bytes\n"
            "load       m=4 fp16->fp16 A16, concurrency 4, 2s after 500ms "
            "warm-up\n"
            "throughput 50.0 requests/s, 200.0 rows/s (100 requests in 2.00 "
            "s)\n"
            "latency us p50 50.0  p90 90.0  p99 99.0  p99.9 100.0  max 100.0  "
            "mean 50.5\n"
            "server us  queue 0.0  h2d 0.0  kernel 5.0  d2h 0.0  total 0.0  "
            "(means)\n"
            "server us  queue 0.0  h2d 0.0  kernel 9.9  d2h 0.0  total 0.0  "
            "(p99s)\n"
            "launches   8.00 rows, 2.00 requests (means)\n"
            "errors     0\n"
            "cpu us     client 10.0  (a request)\n"
            "verify     none\n");
}

TEST(ReportTable, AnOpenRunHasRatesBothLatenciesAndLag) {
  const std::string table = FormatTable(ReportOf(OpenRun()));
  EXPECT_THAT(table, HasSubstr("rate       50.0 requests/s asked, 50.0 "
                               "achieved (100 sent of 102 due)\n"));
  EXPECT_THAT(table, HasSubstr("latency us p50 50.0  "));
  EXPECT_THAT(table, HasSubstr("mean 50.5  (from the intended start)\n"));
  EXPECT_THAT(table, HasSubstr("send us    p50 25.0  "));
  EXPECT_THAT(table, HasSubstr("lag us     p50 0.1  p99 0.1  max 0.1"));
}

TEST(ReportTable, SeveralClassesHaveALineEach) {
  RunResult run = ClosedRun();
  run.classes.push_back(run.classes.front());
  run.classes.back().name = "m=64";
  const std::string table = FormatTable(ReportOf(run));
  EXPECT_THAT(table, HasSubstr("load       m=4 + m=64 fp16"));
  EXPECT_THAT(table, HasSubstr("\nm=4        p50 50.0"));
  EXPECT_THAT(table, HasSubstr("\nm=64       p50 50.0"));
  EXPECT_THAT(table, HasSubstr("(100 requests)\n"));
}

TEST(ReportTable, AWalkHasItsTokens) {
  LoadtestReport report = ReportOf(ClosedRun());
  report.calls_of_token = 5;
  EXPECT_THAT(FormatTable(report),
              HasSubstr("\ntokens     40.0 tokens/s, 10.00 a client, 0.253 ms "
                        "a token of 5 calls\n"));
  report = ReportOf(OpenRun());
  report.calls_of_token = 5;
  EXPECT_THAT(FormatTable(report),
              HasSubstr("tokens     40.0 tokens/s, 0.253 ms a token"));
  EXPECT_THAT(FormatTable(ReportOf(ClosedRun())), Not(HasSubstr("tokens")));
}

TEST(ReportTable, RowsOfProgramsHaveTheirOwnTypes) {
  LoadtestReport report = ReportOf(ClosedRun());
  report.weights.programs = 5;
  EXPECT_THAT(FormatTable(report),
              HasSubstr("load       m=4 bf16 programs, concurrency 4"));
}

TEST(ReportTable, ErrorsAreNamedWithTheFirstMessage) {
  RunResult run = ClosedRun();
  run.errors[absl::StatusCode::kNotFound] = {3, "weights \"x\""};
  run.errors[absl::StatusCode::kNotFound].latency_ns.emplace().Record(2500);
  EXPECT_THAT(
      FormatTable(ReportOf(run)),
      HasSubstr("errors     3 NOT_FOUND: weights \"x\"\n           after "
                "us p50 2.5  p99 2.5  max 2.5\n"));
}

TEST(ReportTable, WhatARunAskedForIsNoError) {
  RunResult run = ClosedRun();
  run.expired = 1;
  run.disconnected = 2;
  run.uploads = 3;
  run.server_cpu = absl::Milliseconds(2);
  run.interrupted = true;
  const std::string table = FormatTable(ReportOf(run));
  EXPECT_THAT(table, HasSubstr("errors     0\n"));
  EXPECT_THAT(table,
              HasSubstr("also       1 expired, 2 disconnected, 3 uploads\n"));
  EXPECT_THAT(table, HasSubstr("client 10.0  server 20.0  (a request)\n"));
  EXPECT_THAT(table, HasSubstr("interrupted; measured until then"));
}

TEST(ReportTable, TheBaselineShowsTheOverhead) {
  LoadtestReport report = ReportOf(ClosedRun());
  Baseline& baseline = report.baseline.emplace();
  baseline.bytes_out = 128;
  baseline.bytes_back = 64;
  baseline.echo_ns.Record(300);
  baseline.gemm_ns.Record(1000);
  baseline.device_ns.Record(200);
  EXPECT_THAT(FormatTable(report),
              HasSubstr("baseline   echo 0.3  device 0.2  round trip 1.0  "
                        "overhead 0.5  us (p50s, one in flight; 128 bytes "
                        "out, 64 back)\n"));
}

TEST(ReportTable, AnswersAreComparedWithTheEchoesOfAsManyClients) {
  LoadtestReport report = ReportOf(ClosedRun());
  report.baseline.emplace().echo_rate =
      EchoRate{64, 4 * report.runs[0].answers_per_second()};
  EXPECT_THAT(FormatTable(report),
              AllOf(HasSubstr("echo rate  "), HasSubstr("/s from 64 clients"),
                    HasSubstr("answers are 25.0 % of that\n")));
}

TEST(ReportTable, AWrongAnswerStandsOutOnce) {
  LoadtestReport report = ReportOf(ClosedRun());
  report.verify.mode = "sample";
  report.verify.answers_compared = 10;
  report.verify.elements_checked = 100;
  report.verify.worst_tolerance_used = 1.5;
  report.verify.status = absl::DataLossError("row 1 column 2");
  report.findings = {{Verdict::kWrongAnswer, "row 1 column 2"},
                     {Verdict::kSloMissed, "p99 is 812 us"}};
  const std::string table = FormatTable(report);
  EXPECT_THAT(table,
              HasSubstr("verify     sample: 10 answers compared, 0 with other "
                        "bits; 100 elements against fp64, worst error 1.500 "
                        "of its tolerance\nWRONG      row 1 column 2\n"));
  EXPECT_THAT(table, Not(HasSubstr("FAILED     wrong")));
  EXPECT_THAT(table, HasSubstr("FAILED     slo missed: p99 is 812 us\n"));
}

TEST(ReportTable, SeveralRunsAreARowEach) {
  LoadtestReport report = ReportOf(OpenRun());
  report.runs[0].label = "rate=50";
  report.runs.push_back(ClosedRun());
  report.runs[1].label = "concurrency=4";
  report.headline = 1;
  const std::string table = FormatTable(report);
  EXPECT_THAT(
      table,
      HasSubstr("run            requests/s       rows/s     p50 us     p99 us "
                "  p99.9 us  errors rows/launch lag p99 us\n"
                "rate=50              50.0        200.0       50.0       99.0 "
                "     100.0       0        8.00        0.1\n"
                "concurrency=4        50.0        200.0       50.0       99.0 "
                "     100.0       0        8.00          -\n"
                "run        concurrency=4\n"
                "load       m=4 "));
}

TEST(ReportTable, ThePeakSaysWhetherItWasConfirmed) {
  LoadtestReport report = ReportOf(OpenRun());
  report.peak = PeakResult{"p99=500us", 12345, true};
  EXPECT_THAT(
      FormatTable(report),
      HasSubstr("peak       12345 requests/s hold p99=500us, confirmed\n"));
  report.peak->confirmed = false;
  EXPECT_THAT(FormatTable(report), HasSubstr("p99=500us, not confirmed\n"));
  report.peak->rate = 0;
  EXPECT_THAT(FormatTable(report), HasSubstr("peak       no rate held p99="));
}

TEST(ReportTable, AReportWithoutRunsIsStillText) {
  EXPECT_THAT(FormatTable(LoadtestReport()), StartsWith("server     "));
  EXPECT_THAT(FormatTable(LoadtestReport()), HasSubstr("nothing ran\n"));
}

}  // namespace
}  // namespace qgemm::loadtest
