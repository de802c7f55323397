// SPDX-License-Identifier: Apache-2.0
//
// Rows and quoting of the series.

#include "loadtest/report/series_csv.h"

#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr char kHeader[] =
    "run,start_s,length_s,answers,rows,errors,p50_us,p99_us,max_us,in_flight,"
    "max_lag_us,launch_rows\n";

RunResult RunOfOneInterval() {
  RunResult run;
  SeriesPoint& point = run.series.emplace_back();
  point.start = absl::Milliseconds(-100);
  point.length = absl::Milliseconds(100);
  point.answers = 10;
  point.rows = 40;
  point.errors = 1;
  point.p50_ns = 1001;
  point.p99_ns = 2000;
  point.max_ns = 3500;
  point.in_flight = 4;
  point.max_lag_ns = 7;
  point.launch_rows = 2.5;
  return run;
}

TEST(SeriesCsv, IsAHeaderIfNothingRan) {
  EXPECT_EQ(FormatSeriesCsv(LoadtestReport()), kHeader);
}

TEST(SeriesCsv, HasARowAnInterval) {
  LoadtestReport report;
  report.runs.push_back(RunOfOneInterval());
  EXPECT_EQ(FormatSeriesCsv(report),
            std::string(kHeader) +
                ",-0.100000,0.100000,10,40,1,1.001,2.000,3.500,4,0.007,2.500"
                "\n");
}

TEST(SeriesCsv, QuotesLabelsThatNeedIt) {
  LoadtestReport report;
  report.runs = {RunOfOneInterval(), RunOfOneInterval()};
  report.runs[0].label = "rate=2000";
  report.runs[1].label = "a \"b\", c";
  const std::string text = FormatSeriesCsv(report);
  EXPECT_NE(text.find("\nrate=2000,-0.1"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\"a \"\"b\"\", c\",-0.1"), std::string::npos) << text;
}

}  // namespace
}  // namespace qgemm
