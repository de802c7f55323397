// SPDX-License-Identifier: Apache-2.0
//
// Rows and quoting.

#include "loadtest/report/series_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "loadtest/report/run_figures.h"

namespace qgemm {
namespace {

constexpr absl::string_view kHeader =
    "run,start_s,length_s,answers,rows,errors,p50_us,p99_us,max_us,in_flight,"
    "max_lag_us,launch_rows\n";

std::string Quoted(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) {
    return std::string(text);
  }
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// To the nanosecond that it is known to.
std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%.3f",
                         MicrosecondsOf(static_cast<double>(nanoseconds)));
}

std::string Row(absl::string_view run, const SeriesPoint& point) {
  return absl::StrFormat(
      "%s,%.6f,%.6f,%d,%d,%d,%s,%s,%s,%d,%s,%.3f\n", run,
      absl::ToDoubleSeconds(point.start), absl::ToDoubleSeconds(point.length),
      point.answers, point.rows, point.errors, Microseconds(point.p50_ns),
      Microseconds(point.p99_ns), Microseconds(point.max_ns), point.in_flight,
      Microseconds(point.max_lag_ns), point.launch_rows);
}

}  // namespace

std::string FormatSeriesCsv(const LoadtestReport& report) {
  std::string text(kHeader);
  for (const RunResult& run : report.runs) {
    const std::string label = Quoted(run.label);
    for (const SeriesPoint& point : run.series) {
      absl::StrAppend(&text, Row(label, point));
    }
  }
  return text;
}

}  // namespace qgemm
