// SPDX-License-Identifier: Apache-2.0
//
// FormatTable: the lines, in their order.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/report/report_formats.h"

namespace qgemm::loadtest {
namespace {

struct NamedPercentile {
  double percent;
  absl::string_view name;
};
constexpr NamedPercentile kPercentiles[] = {
    {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}};

// More classes than these are counted, not named, in the load line.
constexpr size_t kMostClassesNamed = 4;

std::string Line(absl::string_view label, absl::string_view text) {
  return absl::StrFormat("%-10s %s\n", label, text);
}

double MicrosecondsOf(double nanoseconds) { return nanoseconds / 1000; }

double PercentileMicroseconds(const Histogram& nanoseconds, double percent) {
  return MicrosecondsOf(static_cast<double>(nanoseconds.Percentile(percent)));
}

std::string ServerLine(const LoadtestReport& report) {
  const ServerInfo& server = report.environment.server;
  return Line("server", absl::StrFormat("%s (%s, %s)", report.option("server"),
                                        server.backend, server.device));
}

std::string WeightsLine(const WeightsSummary& weights) {
  return Line("weights", absl::StrFormat("%s, %d resident bytes", weights.text,
                                         weights.resident_bytes));
}

std::string ClassNames(const RunResult& run) {
  if (run.classes.size() > kMostClassesNamed) {
    return absl::StrCat(run.classes.size(), " classes");
  }
  return absl::StrJoin(run.classes, " + ",
                       [](std::string* text, const ClassResult& each) {
                         absl::StrAppend(text, each.name);
                       });
}

std::string ElementTypes(const LoadtestReport& report) {
  const absl::string_view type = report.option("dtype");
  if (type.empty()) return "";
  const absl::string_view out_type = report.option("out_dtype");
  return absl::StrFormat(" %s->%s %s", type, out_type.empty() ? type : out_type,
                         report.option("mode"));
}

std::string LoadLine(const LoadtestReport& report, const RunResult& run) {
  const std::string arrivals =
      run.is_open() ? absl::StrFormat("open arrivals, at most %d in flight",
                                      run.concurrency)
                    : absl::StrFormat("concurrency %d", run.concurrency);
  const absl::Duration rounding = absl::Milliseconds(1);
  return Line(
      "load",
      absl::StrFormat("%s%s, %s, %s after %s warm-up", ClassNames(run),
                      ElementTypes(report), arrivals,
                      absl::FormatDuration(absl::Trunc(run.due_time, rounding)),
                      absl::FormatDuration(absl::Trunc(run.warmup, rounding))));
}

std::string RateLine(const RunResult& run) {
  if (!run.is_open()) return "";
  return Line("rate", absl::StrFormat("%.1f requests/s asked, %.1f achieved "
                                      "(%d sent of %d due)",
                                      run.asked_rate, run.achieved_rate(),
                                      run.sent, run.due));
}

std::string ThroughputLine(const LoadtestReport& report, const RunResult& run) {
  std::string text =
      absl::StrFormat("%.1f requests/s, %.1f rows/s", run.answers_per_second(),
                      run.rows_per_second());
  if (const auto tokens = report.tokens_per_second(run)) {
    absl::StrAppendFormat(&text, ", %.1f tokens/s", *tokens);
  }
  absl::StrAppendFormat(&text, " (%d requests in %.2f s)", run.answers,
                        absl::ToDoubleSeconds(run.measured));
  return Line("throughput", text);
}

std::string LatencyText(const Histogram& nanoseconds) {
  std::string text;
  for (const NamedPercentile& percentile : kPercentiles) {
    absl::StrAppendFormat(
        &text, "%s %.1f  ", percentile.name,
        PercentileMicroseconds(nanoseconds, percentile.percent));
  }
  absl::StrAppendFormat(&text, "max %.1f  mean %.1f",
                        MicrosecondsOf(static_cast<double>(nanoseconds.max())),
                        MicrosecondsOf(nanoseconds.mean()));
  return text;
}

std::string ClassLines(const RunResult& run) {
  if (run.classes.size() < 2) return "";
  std::string text;
  for (const ClassResult& each : run.classes) {
    absl::StrAppend(
        &text, Line(each.name, absl::StrFormat("%s  (%d requests)",
                                               LatencyText(each.latency_ns),
                                               each.latency_ns.count())));
  }
  return text;
}

std::string LatencyLines(const RunResult& run) {
  const std::string latency = LatencyText(run.latency_ns());
  if (!run.is_open()) {
    return absl::StrCat(Line("latency us", latency), ClassLines(run));
  }
  return absl::StrCat(
      Line("latency us", absl::StrCat(latency, "  (from the intended start)")),
      Line("send us", absl::StrCat(LatencyText(run.send_latency_ns()),
                                   "  (from the actual send)")),
      ClassLines(run));
}

std::string LagLine(const RunResult& run) {
  if (!run.is_open()) return "";
  return Line(
      "lag us",
      absl::StrFormat("p50 %.1f  p99 %.1f  max %.1f  (generator)",
                      PercentileMicroseconds(run.lag_ns, 50),
                      PercentileMicroseconds(run.lag_ns, 99),
                      MicrosecondsOf(static_cast<double>(run.lag_ns.max()))));
}

// Picks a stage's figure for a line: its mean, its 99th percentile.
using StageFigure = double (*)(const Histogram& nanoseconds);

std::string StagesText(const ServerHistograms& times, StageFigure figure) {
  return absl::StrFormat(
      "queue %.1f  h2d %.1f  kernel %.1f  d2h %.1f  total %.1f",
      figure(times.queue_ns), figure(times.host_to_device_ns),
      figure(times.kernel_ns), figure(times.device_to_host_ns),
      figure(times.total_ns));
}

std::string ServerTimeLines(const ServerHistograms& times) {
  const StageFigure mean = [](const Histogram& nanoseconds) {
    return MicrosecondsOf(nanoseconds.mean());
  };
  const StageFigure p99 = [](const Histogram& nanoseconds) {
    return PercentileMicroseconds(nanoseconds, 99);
  };
  return absl::StrCat(
      Line("server us", absl::StrCat(StagesText(times, mean), "  (means)")),
      Line("server us", absl::StrCat(StagesText(times, p99), "  (p99s)")),
      Line("launches", absl::StrFormat("%.2f rows, %.2f requests (means)",
                                       times.launch_rows.mean(),
                                       times.launch_requests.mean())));
}

std::string ErrorLines(const RunResult& run) {
  if (run.errors.empty()) return Line("errors", "0");
  std::string text;
  for (const auto& [code, tally] : run.errors) {
    absl::StrAppend(
        &text, Line("errors", absl::StrFormat("%d %s: %s", tally.count,
                                              absl::StatusCodeToString(code),
                                              tally.first_message)));
    if (!tally.latency_ns.has_value()) continue;
    absl::StrAppend(
        &text, Line("", absl::StrFormat(
                            "after us p50 %.1f  p99 %.1f  max %.1f",
                            PercentileMicroseconds(*tally.latency_ns, 50),
                            PercentileMicroseconds(*tally.latency_ns, 99),
                            PercentileMicroseconds(*tally.latency_ns, 100))));
  }
  return text;
}

// Ends that the run asked for, and uploads during it.
std::string SideCountLine(const RunResult& run) {
  std::vector<std::string> parts;
  if (run.expired > 0) parts.push_back(absl::StrCat(run.expired, " expired"));
  if (run.cancelled > 0) {
    parts.push_back(absl::StrCat(run.cancelled, " cancelled"));
  }
  if (run.disconnected > 0) {
    parts.push_back(absl::StrCat(run.disconnected, " disconnected"));
  }
  if (run.uploads > 0) parts.push_back(absl::StrCat(run.uploads, " uploads"));
  return parts.empty() ? "" : Line("also", absl::StrJoin(parts, ", "));
}

std::string CpuLine(const RunResult& run) {
  std::string text =
      absl::StrFormat("client %.1f", run.client_cpu_us_per_answer());
  if (run.server_cpu > absl::ZeroDuration()) {
    absl::StrAppendFormat(&text, "  server %.1f",
                          run.server_cpu_us_per_answer());
  }
  return Line("cpu us", absl::StrCat(text, "  (a request)"));
}

std::string RunLines(const LoadtestReport& report, const RunResult& run) {
  return absl::StrCat(
      LoadLine(report, run),
      run.interrupted ? "interrupted; measured until then:\n" : "",
      RateLine(run), ThroughputLine(report, run), LatencyLines(run),
      LagLine(run), ServerTimeLines(run.server), ErrorLines(run),
      SideCountLine(run), CpuLine(run));
}

std::string BaselineLine(const LoadtestReport& report) {
  if (!report.baseline.has_value()) return "";
  const Baseline& baseline = *report.baseline;
  const std::optional<double> overhead_us = baseline.overhead_us();
  return Line(
      "baseline",
      absl::StrFormat("echo %.1f  device %.1f  round trip %.1f%s  us "
                      "(p50s, one in flight; %d bytes out, %d back)",
                      PercentileMicroseconds(baseline.echo_ns, 50),
                      PercentileMicroseconds(baseline.device_ns, 50),
                      PercentileMicroseconds(baseline.gemm_ns, 50),
                      overhead_us.has_value()
                          ? absl::StrFormat("  overhead %.1f", *overhead_us)
                          : "",
                      baseline.bytes_out, baseline.bytes_back));
}

// The run's throughput against the echoes that the same connections carry.
std::string EchoRateLine(const LoadtestReport& report) {
  const RunResult* const run = report.headline_run();
  if (run == nullptr || !report.baseline.has_value()) return "";
  const std::optional<EchoRate>& echo_rate = report.baseline->echo_rate;
  if (!echo_rate.has_value() || echo_rate->per_second <= 0) return "";
  return Line(
      "echo rate",
      absl::StrFormat("%.1f/s from %d clients; answers are %.1f %% of that",
                      echo_rate->per_second, echo_rate->clients,
                      100 * run->answers_per_second() / echo_rate->per_second));
}

std::string VerifyLines(const VerifyReport& verify) {
  if (verify.mode == "none") return Line("verify", "none");
  std::string text = absl::StrFormat(
      "%s: %d answers compared, %d with other bits", verify.mode,
      verify.answers_compared, verify.answers_different);
  if (verify.elements_checked > 0) {
    absl::StrAppendFormat(&text,
                          "; %d elements against fp64, worst error %.3f of "
                          "its tolerance",
                          verify.elements_checked, verify.worst_tolerance_used);
  }
  return absl::StrCat(
      Line("verify", text),
      verify.status.ok() ? "" : Line("WRONG", verify.status.message()));
}

std::string PeakLine(const LoadtestReport& report) {
  if (!report.peak.has_value()) return "";
  const PeakResult& peak = *report.peak;
  if (peak.rate <= 0) {
    return Line("peak", absl::StrCat("no rate held ", peak.slo));
  }
  return Line("peak", absl::StrFormat(
                          "%.0f requests/s hold %s, %s", peak.rate, peak.slo,
                          peak.confirmed ? "confirmed" : "not confirmed"));
}

std::string FindingLines(const LoadtestReport& report) {
  const absl::Status& verified = report.verify.status;
  std::string text;
  for (const Finding& finding : report.findings) {
    // The WRONG line says it already.
    if (!verified.ok() && finding.message == verified.message()) continue;
    absl::StrAppend(&text, Line("FAILED", absl::StrCat(Name(finding.verdict),
                                                       ": ", finding.message)));
  }
  return text;
}

std::string RunRow(const RunResult& run, size_t label_width) {
  const Histogram latency = run.latency_ns();
  return absl::StrFormat(
      "%-*s %11.1f %12.1f %10.1f %10.1f %10.1f %7d %11.2f %10s\n",
      static_cast<int>(label_width), run.label,
      run.is_open() ? run.achieved_rate() : run.answers_per_second(),
      run.rows_per_second(), PercentileMicroseconds(latency, 50),
      PercentileMicroseconds(latency, 99),
      PercentileMicroseconds(latency, 99.9), run.error_count(),
      run.server.launch_rows.mean(),
      run.is_open()
          ? absl::StrFormat("%.1f", PercentileMicroseconds(run.lag_ns, 99))
          : "-");
}

// One row per run; empty for a single run.
std::string RunRows(const LoadtestReport& report) {
  if (report.runs.size() < 2) return "";
  size_t label_width = 10;
  for (const RunResult& run : report.runs) {
    label_width = std::max(label_width, run.label.size());
  }
  std::string text = absl::StrFormat(
      "%-*s %11s %12s %10s %10s %10s %7s %11s %10s\n",
      static_cast<int>(label_width), "run", "requests/s", "rows/s", "p50 us",
      "p99 us", "p99.9 us", "errors", "rows/launch", "lag p99 us");
  for (const RunResult& run : report.runs) {
    absl::StrAppend(&text, RunRow(run, label_width));
  }
  return text;
}

std::string HeadlineLines(const LoadtestReport& report) {
  const RunResult* const run = report.headline_run();
  if (run == nullptr) return "nothing ran\n";
  return absl::StrCat(report.runs.size() > 1 ? Line("run", run->label) : "",
                      RunLines(report, *run));
}

}  // namespace

std::string FormatTable(const LoadtestReport& report) {
  return absl::StrCat(
      ServerLine(report), WeightsLine(report.weights), RunRows(report),
      HeadlineLines(report), BaselineLine(report), EchoRateLine(report),
      PeakLine(report), VerifyLines(report.verify), FindingLines(report));
}

}  // namespace qgemm::loadtest
