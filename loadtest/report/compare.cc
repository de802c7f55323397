// SPDX-License-Identifier: Apache-2.0
//
// The rows, their intervals and the warnings.

#include "loadtest/report/compare.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "loadtest/report/run_figures.h"

namespace qgemm {
namespace {

// Which way is better.
enum class Better { kHigher, kLower, kNeither };

// A percentile with fewer answers above it is one answer's, not the run's.
constexpr double kFewestAnswersAbove = 10;

// Flags that name what a run writes, not what it does.
constexpr absl::string_view kOutputOptions[] = {"csv",  "hgrm", "html", "json",
                                                "live", "svg",  "title"};

struct NamedPercentile {
  double percent;
  absl::string_view name;
};
constexpr NamedPercentile kPercentiles[] = {
    {50, "p50 us"}, {90, "p90 us"}, {99, "p99 us"}, {99.9, "p99.9 us"}};

// Series of a run in stretches of equally many intervals, for figures that
// blocks_ns does not have. All are by stretch.
struct Stretches {
  std::vector<double> ones;
  std::vector<double> answers;
  std::vector<double> rows;
  std::vector<double> launch_rows;  // summed over the answers
};

// Whole intervals of the measured time.
std::vector<SeriesPoint> MeasuredPoints(const RunResult& run) {
  std::vector<SeriesPoint> points;
  for (const SeriesPoint& point : run.series) {
    if (point.start >= absl::ZeroDuration() &&
        point.start + point.length <= run.due_time) {
      points.push_back(point);
    }
  }
  return points;
}

// As many stretches as the run has blocks, or fewer. Intervals at the end that
// fill no stretch are left out.
Stretches StretchesOf(const RunResult& run) {
  Stretches stretches;
  const std::vector<SeriesPoint> points = MeasuredPoints(run);
  const size_t blocks = std::max<size_t>(1, run.blocks_ns.size());
  const size_t length = (points.size() + blocks - 1) / blocks;
  if (length == 0) return stretches;
  const size_t count = points.size() / length;
  stretches.ones.assign(count, 1);
  stretches.answers.resize(count);
  stretches.rows.resize(count);
  stretches.launch_rows.resize(count);
  for (size_t i = 0; i < count * length; ++i) {
    const double answers = static_cast<double>(points[i].answers);
    stretches.answers[i / length] += answers;
    stretches.rows[i / length] += static_cast<double>(points[i].rows);
    stretches.launch_rows[i / length] += points[i].launch_rows * answers;
  }
  return stretches;
}

// A run, and what its rows are drawn from. `run` must outlive it.
struct Side {
  explicit Side(const RunResult& source)
      : run(source),
        latency_ns(source.latency_ns()),
        blocks(source.blocks_ns),
        stretches(StretchesOf(source)) {}

  const RunResult& run;
  const Histogram latency_ns;
  const BlockValues blocks;
  const Stretches stretches;
};

ComparisonRow RowOf(absl::string_view name, double a, double b) {
  ComparisonRow row;
  row.name = std::string(name);
  row.a = a;
  row.b = b;
  if (a > 0 && b > 0) row.ratio = b / a;
  return row;
}

Judgement JudgementOf(const RatioInterval& interval, Better better) {
  if (interval.low <= 1 && interval.high >= 1) {
    return Judgement::kNoDifferenceShown;
  }
  const bool is_higher = interval.low > 1;
  if (better == Better::kNeither) {
    return is_higher ? Judgement::kMore : Judgement::kLess;
  }
  return is_higher == (better == Better::kHigher) ? Judgement::kFaster
                                                  : Judgement::kSlower;
}

// What a row's interval is drawn from.
struct RowBlocks {
  BlockStatistic a;
  BlockStatistic b;
  absl::string_view what = "blocks";
};

std::string TooFewBlocks(const RowBlocks& blocks) {
  return absl::StrFormat("%d and %d %s, at least %d needed", blocks.a.blocks,
                         blocks.b.blocks, blocks.what, kFewestBlocks);
}

void Judge(const RowBlocks& blocks, Better better, ComparisonRow* row) {
  if (!row->ratio.has_value()) {
    row->why_no_interval = "not measured on both sides";
    return;
  }
  if (std::min(blocks.a.blocks, blocks.b.blocks) < kFewestBlocks) {
    row->why_no_interval = TooFewBlocks(blocks);
    return;
  }
  const std::optional<RatioInterval> relative =
      BootstrapRatio(blocks.a, blocks.b);
  if (!relative.has_value()) {
    row->why_no_interval = absl::StrCat("the ", blocks.what, " are empty");
    return;
  }
  row->interval =
      RatioInterval{*row->ratio * relative->low, *row->ratio * relative->high};
  row->judgement = JudgementOf(*row->interval, better);
}

ComparisonRow AnswersRow(const Side& a, const Side& b) {
  ComparisonRow row = RowOf("answers/s", a.run.answers_per_second(),
                            b.run.answers_per_second());
  Judge({a.blocks.Count(), b.blocks.Count()}, Better::kHigher, &row);
  return row;
}

bool HaveOneClass(const Side& a, const Side& b) {
  return a.run.classes.size() == 1 && b.run.classes.size() == 1;
}

ComparisonRow RowsRow(const Side& a, const Side& b) {
  ComparisonRow row =
      RowOf("rows/s", a.run.rows_per_second(), b.run.rows_per_second());
  if (HaveOneClass(a, b)) {
    // Rows are answers times a constant.
    Judge({a.blocks.Count(), b.blocks.Count()}, Better::kHigher, &row);
    return row;
  }
  Judge({QuotientOfSums(a.stretches.rows, a.stretches.ones),
         QuotientOfSums(b.stretches.rows, b.stretches.ones),
         "stretches of the series"},
        Better::kHigher, &row);
  return row;
}

// Answers above the percentile, on the side with fewer.
double FewestAbove(const Side& a, const Side& b, double percent) {
  const int64_t answers = std::min(a.latency_ns.count(), b.latency_ns.count());
  return static_cast<double>(answers) * (100 - percent) / 100;
}

ComparisonRow PercentileRow(const Side& a, const Side& b,
                            const NamedPercentile& percentile) {
  const auto value = [&](const Side& side) {
    return MicrosecondsOf(
        static_cast<double>(side.latency_ns.Percentile(percentile.percent)));
  };
  ComparisonRow row = RowOf(percentile.name, value(a), value(b));
  const double above = FewestAbove(a, b, percentile.percent);
  if (row.ratio.has_value() && above < kFewestAnswersAbove) {
    row.why_no_interval =
        absl::StrFormat("%.1f answers above it, at least %.0f needed", above,
                        kFewestAnswersAbove);
    return row;
  }
  Judge({a.blocks.Percentile(percentile.percent),
         b.blocks.Percentile(percentile.percent)},
        Better::kLower, &row);
  return row;
}

ComparisonRow MeanRow(const Side& a, const Side& b) {
  ComparisonRow row = RowOf("mean us", MicrosecondsOf(a.latency_ns.mean()),
                            MicrosecondsOf(b.latency_ns.mean()));
  Judge({a.blocks.Mean(), b.blocks.Mean()}, Better::kLower, &row);
  return row;
}

ComparisonRow LaunchRowsRow(const Side& a, const Side& b) {
  ComparisonRow row = RowOf("rows a launch", a.run.server.launch_rows.mean(),
                            b.run.server.launch_rows.mean());
  Judge({QuotientOfSums(a.stretches.launch_rows, a.stretches.answers),
         QuotientOfSums(b.stretches.launch_rows, b.stretches.answers),
         "stretches of the series"},
        Better::kNeither, &row);
  return row;
}

ComparisonRow CpuRow(absl::string_view name, double a, double b) {
  ComparisonRow row = RowOf(name, a, b);
  row.why_no_interval =
      row.ratio.has_value() ? "one figure a run" : "not measured on both sides";
  return row;
}

std::vector<ComparisonRow> RowsOf(const Side& a, const Side& b) {
  std::vector<ComparisonRow> rows = {AnswersRow(a, b), RowsRow(a, b)};
  for (const NamedPercentile& percentile : kPercentiles) {
    rows.push_back(PercentileRow(a, b, percentile));
  }
  rows.push_back(MeanRow(a, b));
  rows.push_back(LaunchRowsRow(a, b));
  rows.push_back(
      CpuRow("client cpu us a request",
             CpuMicrosecondsAnAnswer(a.run.client_cpu, a.run.answers),
             CpuMicrosecondsAnAnswer(b.run.client_cpu, b.run.answers)));
  rows.push_back(
      CpuRow("server cpu us a request",
             CpuMicrosecondsAnAnswer(a.run.server_cpu, a.run.answers),
             CpuMicrosecondsAnAnswer(b.run.server_cpu, b.run.answers)));
  return rows;
}

void WarnOfRun(absl::string_view side, const RunResult& run,
               std::vector<std::string>* warnings) {
  if (run.interrupted) {
    warnings->push_back(absl::StrCat(side, " was interrupted"));
  }
  if (run.error_count() > 0) {
    warnings->push_back(
        absl::StrFormat("%s had %d errors; latencies are of answers only", side,
                        run.error_count()));
  }
}

RunComparison CompareRuns(const RunResult& a, const RunResult& b) {
  RunComparison comparison;
  comparison.label = a.label;
  if ((a.asked_rate > 0) != (b.asked_rate > 0)) {
    comparison.warnings.push_back(
        "one had open arrivals and the other a closed loop: their latencies "
        "do not mean the same");
  }
  WarnOfRun("a", a, &comparison.warnings);
  WarnOfRun("b", b, &comparison.warnings);
  comparison.rows = RowsOf(Side(a), Side(b));
  return comparison;
}

const RunResult* FindRun(const LoadtestReport& report,
                         absl::string_view label) {
  for (const RunResult& run : report.runs) {
    if (run.label == label) return &run;
  }
  return nullptr;
}

std::string UnmatchedWarning(absl::string_view side, const RunResult& run) {
  return absl::StrFormat("only %s has the run \"%s\"; it is left out", side,
                         run.label);
}

void WarnIfDifferent(absl::string_view what, absl::string_view a,
                     absl::string_view b, std::vector<std::string>* warnings) {
  if (a == b) return;
  warnings->push_back(
      absl::StrFormat("%s: \"%s\" in a, \"%s\" in b", what, a, b));
}

std::vector<std::string> EnvironmentWarnings(const LoadtestReport& a,
                                             const LoadtestReport& b) {
  std::vector<std::string> warnings;
  const LoadtestEnvironment& of_a = a.environment;
  const LoadtestEnvironment& of_b = b.environment;
  WarnIfDifferent("backend", of_a.server.backend, of_b.server.backend,
                  &warnings);
  WarnIfDifferent("server device", of_a.server.device, of_b.server.device,
                  &warnings);
  WarnIfDifferent("server device detail", of_a.server.device_detail,
                  of_b.server.device_detail, &warnings);
  WarnIfDifferent("weights", a.weights.text, b.weights.text, &warnings);
  WarnIfDifferent("transport", of_a.transport, of_b.transport, &warnings);
  WarnIfDifferent("client processor", of_a.client_cpu, of_b.client_cpu,
                  &warnings);
  WarnIfDifferent("client processors", absl::StrCat(of_a.client_cpus),
                  absl::StrCat(of_b.client_cpus), &warnings);
  return warnings;
}

std::optional<std::string> OptionOf(const LoadtestReport& report,
                                    absl::string_view name) {
  for (const auto& [option, value] : report.options) {
    if (option == name) return value;
  }
  return std::nullopt;
}

bool NamesOutput(absl::string_view option) {
  return std::find(std::begin(kOutputOptions), std::end(kOutputOptions),
                   option) != std::end(kOutputOptions);
}

std::vector<OptionDifference> OptionDifferences(const LoadtestReport& a,
                                                const LoadtestReport& b) {
  std::vector<OptionDifference> differences;
  for (const auto& [name, value] : a.options) {
    std::optional<std::string> other = OptionOf(b, name);
    if (other == value || NamesOutput(name)) continue;
    differences.push_back({name, value, std::move(other)});
  }
  for (const auto& [name, value] : b.options) {
    if (OptionOf(a, name).has_value() || NamesOutput(name)) continue;
    differences.push_back({name, std::nullopt, value});
  }
  return differences;
}

std::string DescriptionOf(const LoadtestReport& report) {
  const ServerDescription& server = report.environment.server;
  return absl::StrFormat("%s, server %s (%s, %s), %s",
                         absl::FormatTime(absl::RFC3339_sec, report.started_at,
                                          absl::UTCTimeZone()),
                         server.version, server.backend, server.device,
                         report.weights.text);
}

}  // namespace

absl::string_view Name(Judgement judgement) {
  switch (judgement) {
    case Judgement::kNone:
      return "";
    case Judgement::kNoDifferenceShown:
      return "no difference shown";
    case Judgement::kFaster:
      return "faster";
    case Judgement::kSlower:
      return "slower";
    case Judgement::kMore:
      return "more";
    case Judgement::kLess:
      return "less";
  }
  return "";
}

Comparison Compare(const LoadtestReport& a, const LoadtestReport& b) {
  Comparison comparison;
  comparison.a = DescriptionOf(a);
  comparison.b = DescriptionOf(b);
  comparison.warnings = EnvironmentWarnings(a, b);
  comparison.options = OptionDifferences(a, b);
  for (const RunResult& run : a.runs) {
    if (FindRun(a, run.label) != &run) continue;
    if (const RunResult* const other = FindRun(b, run.label)) {
      comparison.runs.push_back(CompareRuns(run, *other));
    } else {
      comparison.warnings.push_back(UnmatchedWarning("a", run));
    }
  }
  for (const RunResult& run : b.runs) {
    if (FindRun(a, run.label) == nullptr) {
      comparison.warnings.push_back(UnmatchedWarning("b", run));
    }
  }
  return comparison;
}

}  // namespace qgemm
