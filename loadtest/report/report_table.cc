// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {
namespace {

// Lines of a label and a text.
class Lines {
 public:
  template <typename... Args>
  void Add(absl::string_view label, const absl::FormatSpec<Args...>& format,
           const Args&... args) {
    absl::StrAppendFormat(&text_, "%-10s %s\n", label,
                          absl::StrFormat(format, args...));
  }
  void AddWhole(absl::string_view line) { absl::StrAppend(&text_, line, "\n"); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

double Us(double nanoseconds) { return nanoseconds / 1000; }

double Us(const Histogram& nanoseconds, double percent) {
  return Us(static_cast<double>(nanoseconds.Percentile(percent)));
}

// Types of rows: "fp16->fp16 A16".
std::string TypesText(const LoadtestReport& report) {
  if (report.weights.programs > 0) return "bf16 programs";
  absl::string_view out_type = report.option("out_dtype");
  if (out_type.empty()) out_type = report.option("dtype");
  return absl::StrCat(report.option("dtype"), "->", out_type, " ",
                      report.option("mode"));
}

void AddLoad(const LoadtestReport& report, const RunResult& run, Lines* lines) {
  constexpr size_t kMostClassesNamed = 4;
  const std::string classes =
      run.classes.size() > kMostClassesNamed
          ? absl::StrCat(run.classes.size(), " classes")
          : absl::StrJoin(run.classes, " + ",
                          [](std::string* text, const ClassResult& each) {
                            absl::StrAppend(text, each.name);
                          });
  const absl::Duration rounding = absl::Milliseconds(1);
  lines->Add("load", "%s %s, %s %d%s, %s after %s warm-up", classes,
             TypesText(report),
             run.is_open() ? "open arrivals, at most" : "concurrency",
             run.concurrency, run.is_open() ? " in flight" : "",
             absl::FormatDuration(absl::Trunc(run.due_time, rounding)),
             absl::FormatDuration(absl::Trunc(run.warmup, rounding)));
  if (run.interrupted) lines->AddWhole("interrupted; measured until then:");
}

void AddRates(const LoadtestReport& report, const RunResult& run,
              Lines* lines) {
  if (run.is_open()) {
    lines->Add("rate",
               "%.1f requests/s asked, %.1f achieved (%d sent of %d "
               "due)",
               run.asked_rate, run.achieved_rate(), run.sent, run.due);
  }
  lines->Add("throughput",
             "%.1f requests/s, %.1f rows/s (%d requests in "
             "%.2f s)",
             run.answers_per_second(), run.rows_per_second(), run.answers,
             absl::ToDoubleSeconds(run.measured));
  const std::optional<TokenFigures> tokens = report.tokens(run);
  if (!tokens.has_value()) return;
  lines->Add(
      "tokens", "%.1f tokens/s%s, %.3f ms a token of %d calls",
      tokens->per_second,
      tokens->client_per_second.has_value()
          ? absl::StrFormat(", %.2f a client", *tokens->client_per_second)
          : "",
      absl::ToDoubleMilliseconds(tokens->time), report.calls_of_token);
}

std::string LatencyText(const Histogram& nanoseconds) {
  return absl::StrFormat(
      "p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f  mean %.1f",
      Us(nanoseconds, 50), Us(nanoseconds, 90), Us(nanoseconds, 99),
      Us(nanoseconds, 99.9), Us(nanoseconds, 100), Us(nanoseconds.mean()));
}

void AddLatencies(const RunResult& run, Lines* lines) {
  lines->Add("latency us", "%s%s", LatencyText(run.latency_ns()),
             run.is_open() ? "  (from the intended start)" : "");
  if (run.is_open()) {
    lines->Add("send us", "%s  (from the actual send)",
               LatencyText(run.send_latency_ns()));
  }
  for (const ClassResult& each : run.classes) {
    if (run.classes.size() < 2) break;
    lines->Add(each.name, "%s  (%d requests)", LatencyText(each.latency_ns),
               each.latency_ns.count());
  }
  if (run.is_open()) {
    lines->Add("lag us", "p50 %.1f  p99 %.1f  max %.1f  (generator)",
               Us(run.lag_ns, 50), Us(run.lag_ns, 99), Us(run.lag_ns, 100));
  }
}

void AddServerTimes(const ServerHistograms& times, Lines* lines) {
  const auto add = [&](absl::string_view name, auto figure) {
    lines->Add("server us",
               "queue %.1f  h2d %.1f  kernel %.1f  d2h %.1f  total %.1f  (%s)",
               figure(times.queue_ns), figure(times.host_to_device_ns),
               figure(times.kernel_ns), figure(times.device_to_host_ns),
               figure(times.total_ns), name);
  };
  add("means", [](const Histogram& each) { return Us(each.mean()); });
  add("p99s", [](const Histogram& each) { return Us(each, 99); });
  lines->Add("launches", "%.2f rows, %.2f requests (means)",
             times.launch_rows.mean(), times.launch_requests.mean());
}

void AddErrors(const RunResult& run, Lines* lines) {
  if (run.errors.empty()) lines->Add("errors", "0");
  for (const auto& [code, tally] : run.errors) {
    lines->Add("errors", "%d %s: %s", tally.count,
               absl::StatusCodeToString(code), tally.first_message);
    if (!tally.latency_ns.has_value()) continue;
    lines->Add("", "after us p50 %.1f  p99 %.1f  max %.1f",
               Us(*tally.latency_ns, 50), Us(*tally.latency_ns, 99),
               Us(*tally.latency_ns, 100));
  }
  std::vector<std::string> also;
  for (const auto& [count, name] : {std::make_pair(run.expired, " expired"),
                                    {run.cancelled, " cancelled"},
                                    {run.disconnected, " disconnected"},
                                    {run.uploads, " uploads"}}) {
    if (count > 0) also.push_back(absl::StrCat(count, name));
  }
  if (!also.empty()) lines->Add("also", "%s", absl::StrJoin(also, ", "));
}

void AddRun(const LoadtestReport& report, const RunResult& run, Lines* lines) {
  if (report.runs.size() > 1) lines->Add("run", "%s", run.label);
  AddLoad(report, run, lines);
  AddRates(report, run, lines);
  AddLatencies(run, lines);
  AddServerTimes(run.server, lines);
  AddErrors(run, lines);
  lines->Add(
      "cpu us", "client %.1f%s  (a request)", run.client_cpu_us_per_answer(),
      run.server_cpu > absl::ZeroDuration()
          ? absl::StrFormat("  server %.1f", run.server_cpu_us_per_answer())
          : "");
}

void AddBaseline(const LoadtestReport& report, const Baseline& baseline,
                 Lines* lines) {
  const std::optional<double> overhead_us = baseline.overhead_us();
  lines->Add(
      "baseline",
      "echo %.1f  device %.1f  round trip %.1f%s  us (p50s, one in "
      "flight; %d bytes out, %d back)",
      Us(baseline.echo_ns, 50), Us(baseline.device_ns, 50),
      Us(baseline.gemm_ns, 50),
      overhead_us ? absl::StrFormat("  overhead %.1f", *overhead_us) : "",
      baseline.bytes_out, baseline.bytes_back);
  const RunResult* const run = report.headline_run();
  const EchoRate echoes = baseline.echo_rate.value_or(EchoRate());
  if (run == nullptr || echoes.per_second <= 0) return;
  lines->Add("echo rate", "%.1f/s from %d clients; answers are %.1f %% of that",
             echoes.per_second, echoes.clients,
             100 * run->answers_per_second() / echoes.per_second);
}

void AddVerify(const VerifyReport& verify, Lines* lines) {
  if (verify.mode == "none") return lines->Add("verify", "none");
  const std::string fp64 =
      verify.elements_checked == 0
          ? ""
          : absl::StrFormat(
                "; %d elements against fp64, worst error %.3f of "
                "its tolerance",
                verify.elements_checked, verify.worst_tolerance_used);
  lines->Add("verify", "%s: %d answers compared, %d with other bits%s",
             verify.mode, verify.answers_compared, verify.answers_different,
             fp64);
  if (!verify.status.ok()) lines->Add("WRONG", "%s", verify.status.message());
}

void AddPeak(const PeakResult& peak, Lines* lines) {
  if (peak.rate <= 0) return lines->Add("peak", "no rate held %s", peak.slo);
  lines->Add("peak", "%.0f requests/s hold %s, %s", peak.rate, peak.slo,
             peak.confirmed ? "confirmed" : "not confirmed");
}

void AddRunRows(const std::vector<RunResult>& runs, Lines* lines) {
  size_t width = 10;
  for (const RunResult& run : runs) width = std::max(width, run.label.size());
  const int label_width = static_cast<int>(width);
  lines->AddWhole(absl::StrFormat("%-*s %11s %12s %10s %10s %10s %7s %11s %10s",
                                  label_width, "run", "requests/s", "rows/s",
                                  "p50 us", "p99 us", "p99.9 us", "errors",
                                  "rows/launch", "lag p99 us"));
  for (const RunResult& run : runs) {
    const Histogram latency = run.latency_ns();
    lines->AddWhole(absl::StrFormat(
        "%-*s %11.1f %12.1f %10.1f %10.1f %10.1f %7d %11.2f %10s", label_width,
        run.label,
        run.is_open() ? run.achieved_rate() : run.answers_per_second(),
        run.rows_per_second(), Us(latency, 50), Us(latency, 99),
        Us(latency, 99.9), run.error_count(), run.server.launch_rows.mean(),
        run.is_open() ? absl::StrFormat("%.1f", Us(run.lag_ns, 99)) : "-"));
  }
}

}  // namespace

std::string FormatTable(const LoadtestReport& report) {
  Lines lines;
  const ServerInfo& server = report.environment.server;
  lines.Add("server", "%s (%s, %s)", report.option("server"), server.backend,
            server.device);
  lines.Add("weights", "%s, %d resident bytes", report.weights.text,
            report.weights.resident_bytes);
  if (report.runs.size() > 1) AddRunRows(report.runs, &lines);
  if (const RunResult* const run = report.headline_run()) {
    AddRun(report, *run, &lines);
  } else {
    lines.AddWhole("nothing ran");
  }
  if (report.baseline) AddBaseline(report, *report.baseline, &lines);
  if (report.peak) AddPeak(*report.peak, &lines);
  AddVerify(report.verify, &lines);
  const absl::Status& verified = report.verify.status;
  for (const Finding& finding : report.findings) {
    // The WRONG line says it already.
    if (!verified.ok() && finding.message == verified.message()) continue;
    lines.Add("FAILED", "%s: %s", Name(finding.verdict), finding.message);
  }
  return lines.text();
}

}  // namespace qgemm::loadtest
