// SPDX-License-Identifier: Apache-2.0
//
// Sections from the top to the bottom.

#include "loadtest/report/html_page.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "loadtest/report/page/course_plots.h"
#include "loadtest/report/page/html_table.h"
#include "loadtest/report/page/markup.h"
#include "loadtest/report/page/page_style.h"
#include "loadtest/report/page/plot_style.h"
#include "loadtest/report/page/quantity.h"
#include "loadtest/report/page/report_tables.h"
#include "loadtest/report/page/report_text.h"
#include "loadtest/report/page/server_plots.h"
#include "loadtest/report/page/spectrum_plot.h"
#include "loadtest/report/page/stacked_bar.h"
#include "loadtest/report/page/svg_plot.h"
#include "loadtest/report/page/sweep_plots.h"

namespace qgemm {
namespace {

// View boxes, in CSS pixels at the widths where page_style.cc shows them.
PlotSize WideSize() { return {1160, 420, "wide"}; }
PlotSize MidSize() { return {560, 320, "mid"}; }
PlotSize SlimSize() { return {344, 280, "slim"}; }
// The width between the margins of A4.
PlotSize PaperSize() { return {690, 280, "paper-size"}; }
PlotSize MidBarSize() { return {560, 112, "mid"}; }
PlotSize SlimBarSize() { return {344, 112, "slim"}; }
// As wide as README's column on GitHub shows pictures.
PlotSize AloneSize() { return {832, 380, ""}; }

std::string Caption(absl::string_view title, absl::string_view words) {
  return absl::StrCat("<figcaption>\n<h2>", EscapeMarkup(title), "</h2>\n<p>",
                      EscapeMarkup(words), "</p>\n</figcaption>\n");
}

std::string Figure(const Plot& plot, absl::string_view words) {
  return absl::StrCat("<figure>\n", Caption(plot.title, words),
                      FormatSvg(plot, MidSize()), FormatSvg(plot, SlimSize()),
                      "</figure>\n");
}

std::string HeroFigure(const Plot& plot, absl::string_view words) {
  return absl::StrCat("<figure class=\"hero\">\n", Caption(plot.title, words),
                      FormatSvg(plot, WideSize()), FormatSvg(plot, PaperSize()),
                      FormatSvg(plot, MidSize()), FormatSvg(plot, SlimSize()),
                      "</figure>\n");
}

std::string BarFigure(const StackedBar& bar, absl::string_view words) {
  return absl::StrCat("<figure>\n", Caption(bar.title, words),
                      FormatSvg(bar, MidBarSize()),
                      FormatSvg(bar, SlimBarSize()), "</figure>\n");
}

std::string Section(absl::string_view css, absl::string_view content) {
  if (content.empty()) return "";
  return absl::StrCat("<section class=\"", css, "\">\n", content,
                      "</section>\n");
}

// A headline figure.
struct Tile {
  std::string name;
  std::string value;
  std::string note;
  std::string css;
};

std::string TileHtml(const Tile& tile) {
  return absl::StrCat("<div class=\"", tile.css, "\"><dt>",
                      EscapeMarkup(tile.name), "</dt><dd>",
                      EscapeMarkup(tile.value), "</dd><dd class=\"note\">",
                      EscapeMarkup(tile.note), "</dd></div>\n");
}

Tile RateTile(const RunResult& run) {
  if (IsOpen(run)) {
    return {
        "Achieved rate", CountText(run.achieved_rate()),
        absl::StrCat("requests/s, of ", CountText(run.asked_rate), " asked"),
        ""};
  }
  return {"Answers", CountText(run.answers_per_second()), "a second", ""};
}

Tile ErrorTile(const RunResult& run) {
  const auto errors = static_cast<double>(run.error_count());
  return {"Errors", CountText(errors),
          absl::StrCat("beside ", CountText(static_cast<double>(run.answers)),
                       " answers"),
          errors > 0 ? "bad" : ""};
}

void AddLatencyTiles(const RunResult& run, std::vector<Tile>* tiles) {
  const Histogram latency_ns = run.latency_ns();
  const std::string note =
      IsOpen(run) ? "from the intended start" : "from the send";
  const std::pair<const char*, double> percentiles[] = {
      {"p50", 50}, {"p99", 99}, {"p99.9", 99.9}};
  for (const auto& [name, percent] : percentiles) {
    const double value =
        latency_ns.empty()
            ? NAN
            : static_cast<double>(latency_ns.Percentile(percent));
    tiles->push_back({name, DurationText(value), note, ""});
  }
}

std::string Tiles(const LoadtestReport& report) {
  const RunResult* run = report.headline_run();
  if (run == nullptr) return "";
  std::vector<Tile> tiles = {
      RateTile(*run),
      {"Rows", CountText(run->rows_per_second()), "a second", ""}};
  AddLatencyTiles(*run, &tiles);
  tiles.push_back(ErrorTile(*run));
  std::string out = "<dl class=\"tiles\">\n";
  for (const Tile& tile : tiles) absl::StrAppend(&out, TileHtml(tile));
  return out + "</dl>\n";
}

std::string PeakSentence(const LoadtestReport& report) {
  if (!report.peak) return "";
  const PeakResult& peak = *report.peak;
  if (!(peak.rate > 0)) {
    return absl::StrCat("<p class=\"lead\">No rate held <b>",
                        EscapeMarkup(peak.slo), "</b>.</p>\n");
  }
  return absl::StrCat("<p class=\"lead\">Peak: <b>", CountText(peak.rate),
                      " requests/s</b> hold <b>", EscapeMarkup(peak.slo),
                      "</b>, ",
                      peak.confirmed ? "confirmed by a second, longer run"
                                     : "not confirmed by a second run",
                      ".</p>\n");
}

std::string Findings(const LoadtestReport& report) {
  if (report.findings.empty()) return "";
  std::string out = "<ul class=\"findings\">\n";
  for (const Finding& finding : report.findings) {
    absl::StrAppend(&out, "<li><b>", Name(finding.verdict),
                    "</b>: ", EscapeMarkup(finding.message), "</li>\n");
  }
  return out + "</ul>\n";
}

std::string PageTitle(const LoadtestReport& report) {
  return report.title.empty() ? "Load test" : report.title;
}

std::string Header(const LoadtestReport& report) {
  const bool passed = report.verdict() == Verdict::kPassed;
  return absl::StrCat(
      "<header>\n<div class=\"top\"><h1>", EscapeMarkup(PageTitle(report)),
      "</h1><span class=\"badge ", passed ? "good" : "bad", "\">",
      passed ? "✓ " : "✗ ", Name(report.verdict()), "</span></div>\n",
      "<p class=\"lead\">", EscapeMarkup(RunSentence(report)), "</p>\n",
      PeakSentence(report), "<p class=\"when\">",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.started_at,
                       absl::UTCTimeZone()),
      "</p>\n", Findings(report), Tiles(report), "</header>\n");
}

std::string SpectrumSection(const LoadtestReport& report) {
  const RunResult& run = *report.headline_run();
  if (run.latency_ns().empty()) {
    return "<p>No request was answered, so there is no latency to show.</p>\n";
  }
  return absl::StrCat(
      HeroFigure(SpectrumPlot(report),
                 "How long the slowest share of answers took: each labelled "
                 "step to the right is ten times rarer."),
      FormatHtml(PercentileTable(run)));
}

std::string TurnSentence(const LoadtestReport& report) {
  const std::optional<Turn> turn = FindTurn(report);
  if (!turn) return "Each mark is one run.";
  const RunResult& run = report.runs[turn->run];
  const auto p99 = static_cast<double>(run.latency_ns().Percentile(99));
  return absl::StrCat("Each mark is one run. The ", turn->name, ": ",
                      CountText(run.achieved_rate()),
                      " requests/s at a p99 of ", DurationText(p99), ".");
}

std::string SweepSection(const LoadtestReport& report) {
  if (report.runs.size() < 2) return "";
  return absl::StrCat(
      "<div class=\"pair\">\n",
      Figure(RateLatencyPlot(report), TurnSentence(report)),
      Figure(ThroughputPlot(report), "What was answered of what was asked."),
      "</div>\n");
}

std::string CourseSection(const RunResult& run) {
  std::string out;
  if (!run.series.empty()) {
    absl::StrAppend(
        &out,
        Figure(AnswersPlot(run), "Answers a second, by when requests ended."),
        Figure(LatencyCoursePlot(run),
               "Median, 99th percentile and slowest of each interval."),
        Figure(InFlightPlot(run), "At the end of each interval."));
  }
  if (!run.server.launch_rows.empty()) {
    absl::StrAppend(
        &out, Figure(LaunchRowsPlot(run),
                     absl::StrCat("Requests that share weights run in one "
                                  "launch; ",
                                  CountText(run.server.launch_rows.mean()),
                                  " rows on average.")));
  }
  return out;
}

// Bars and their tables: beside each other, or with a yardstick below each
// other in two columns.
std::string TimingSection(const LoadtestReport& report, const RunResult& run) {
  if (run.server.total_ns.empty() && !report.yardstick) return "";
  std::string timing = absl::StrCat(
      BarFigure(TimingBar(run),
                "Mean of each stage, from the send to the answer."),
      FormatHtml(TimingTable(run)));
  if (!report.yardstick) return timing;
  return absl::StrCat(
      "<div>\n", timing, "</div>\n<div>\n",
      BarFigure(YardstickBar(*report.yardstick),
                "What the service adds to an echo and the device, p50."),
      FormatHtml(YardstickTable(*report.yardstick)), "</div>\n");
}

std::string RunSections(const LoadtestReport& report) {
  const RunResult* run = report.headline_run();
  if (run == nullptr) return "";
  return absl::StrCat(
      Section("spectrum", SpectrumSection(report)),
      Section("sweep", SweepSection(report)),
      report.runs.size() > 1 ? Section("runs", FormatHtml(RunsTable(report)))
                             : "",
      Section("pair timing", TimingSection(report, *run)),
      Section("pair course", CourseSection(*run)),
      run->errors.empty() ? ""
                          : Section("errors", FormatHtml(ErrorTable(*run))),
      Section("pair three",
              absl::StrCat(FormatHtml(OutcomeTable(*run)),
                           FormatHtml(CostTable(*run)),
                           FormatHtml(VerifyTable(report.verify)))));
}

// The same command with each flag on a line of its own, but where a quoted
// value would be torn.
std::string BrokenCommand(absl::string_view command) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == 0 ? c == '"' || c == '\'' : c == quote) {
      quote = quote == 0 ? c : 0;
    }
    if (quote == 0 && absl::StartsWith(command.substr(i), " --")) {
      absl::StrAppend(&out, " \\\n    --");
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string ColophonSections(const LoadtestReport& report) {
  const std::string command =
      report.command.empty()
          ? ""
          : absl::StrCat("<h2>Run it again</h2>\n<pre>",
                         EscapeMarkup(BrokenCommand(report.command)),
                         "</pre>\n");
  const std::string options =
      report.options.empty()
          ? ""
          : absl::StrCat(
                "<details open>\n<summary>Options</summary>\n"
                "<div class=\"columns\">\n",
                FormatHtml(OptionTable(report)), "</div>\n</details>\n");
  return absl::StrCat(
      Section("again", command),
      Section("columns environment", FormatHtml(EnvironmentTable(report))),
      Section("options", options));
}

}  // namespace

std::string FormatHtml(const LoadtestReport& report) {
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,"
      "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">"
      "\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      EscapeMarkup(PageTitle(report)), "</title>\n<style>", PlotVariablesCss(),
      PlotCss(), PageCss(), "</style>\n</head>\n<body>\n<main>\n",
      Header(report), RunSections(report), ColophonSections(report),
      "</main>\n</body>\n</html>\n");
}

std::string FormatSpectrumSvg(const LoadtestReport& report) {
  return FormatStandaloneSvg(SpectrumPlot(report), AloneSize());
}

}  // namespace qgemm
