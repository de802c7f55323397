// SPDX-License-Identifier: Apache-2.0
//
// The table and the JSON of a report.

#include "client/loadtest/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qgemm {
namespace {

using Json = nlohmann::ordered_json;

struct Percentile {
  double percent;
  const char* name;
};
constexpr Percentile kPercentiles[] = {
    {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}};

double Microseconds(absl::Duration duration) {
  return absl::ToDoubleMicroseconds(duration);
}

// Means over the measured answers.
struct ServerMeans {
  double queue_us;
  double host_to_device_us;
  double kernel_us;
  double device_to_host_us;
  double total_us;
  double launch_rows;
  double launch_requests;
};

ServerMeans MeansOf(const LoopResult& loop) {
  const double count =
      static_cast<double>(std::max<int64_t>(1, loop.latency.count()));
  const ServerTimingSums& sums = loop.server;
  return {Microseconds(sums.queue) / count,
          Microseconds(sums.host_to_device) / count,
          Microseconds(sums.kernel) / count,
          Microseconds(sums.device_to_host) / count,
          Microseconds(sums.total) / count,
          sums.launch_rows / count,
          sums.launch_requests / count};
}

double PerSecond(double count, absl::Duration time) {
  return time > absl::ZeroDuration() ? count / absl::ToDoubleSeconds(time) : 0;
}

std::string HeadLines(const LoadtestReport& report) {
  const LoadtestOptions& options = report.options;
  return absl::StrFormat(
      "server     %s (%s, %s)\n"
      "weights    %s  k=%d n=%d  %s resident bytes\n"
      "load       m=%d %s->%s %s, concurrency %d, %s after %s warm-up\n",
      options.server, report.server.backend, report.server.device,
      report.weights.format, report.weights.k, report.weights.n,
      absl::StrCat(report.weights.resident_bytes), options.m,
      Name(options.a_type), Name(options.c_type), Name(options.mode),
      options.concurrency, absl::FormatDuration(options.duration),
      absl::FormatDuration(options.warmup));
}

std::string LatencyLines(const LatencyRecorder& latency) {
  std::string text = "latency us";
  for (const Percentile& percentile : kPercentiles) {
    absl::StrAppendFormat(&text, "  %s %.1f", percentile.name,
                          Microseconds(latency.Percentile(percentile.percent)));
  }
  absl::StrAppendFormat(&text, "  max %.1f  mean %.1f\n",
                        Microseconds(latency.max()),
                        Microseconds(latency.mean()));
  return text;
}

std::string ServerLines(const LoopResult& loop) {
  const ServerMeans means = MeansOf(loop);
  return absl::StrFormat(
      "server us  queue %.1f  h2d %.1f  kernel %.1f  d2h %.1f  total %.1f"
      "  (means)\n"
      "launches   %.2f rows, %.2f requests (means)\n",
      means.queue_us, means.host_to_device_us, means.kernel_us,
      means.device_to_host_us, means.total_us, means.launch_rows,
      means.launch_requests);
}

std::string ErrorLines(const LoopResult& loop) {
  if (loop.errors.empty()) return "errors     0\n";
  std::string text;
  for (const auto& [code, tally] : loop.errors) {
    absl::StrAppendFormat(&text, "errors     %d %s: %s\n", tally.count,
                          absl::StatusCodeToString(code), tally.first_message);
  }
  return text;
}

std::string VerifyLines(const LoadtestReport& report) {
  if (report.options.verify == VerifyMode::kNone) return "verify     none\n";
  const VerifyReport& verify = report.verify;
  std::string text =
      absl::StrFormat("verify     %s: %d answers compared, %d with other bits",
                      Name(report.options.verify), verify.answers_compared,
                      verify.answers_different);
  if (verify.elements_checked > 0) {
    absl::StrAppendFormat(&text,
                          "; %d elements against fp64, worst error %.3f of "
                          "its tolerance",
                          verify.elements_checked, verify.worst_tolerance_used);
  }
  if (!verify.status.ok()) {
    absl::StrAppend(&text, "\nWRONG      ", verify.status.message());
  }
  return text + "\n";
}

std::string CleanupLines(const absl::Status& cleanup) {
  if (cleanup.ok()) return "";
  return absl::StrCat("cleanup    the synthetic weights are still there: ",
                      cleanup.message(), "\n");
}

Json EnvironmentJson(const LoadtestReport& report) {
  const ServerDescription& server = report.server;
  return {{"client_cpus", report.client_cpus},
          {"server_version", server.version},
          {"backend", server.backend},
          {"device", server.device},
          {"device_detail", server.device_detail},
          {"parallelism", server.parallelism}};
}

Json OptionsJson(const LoadtestReport& report) {
  const LoadtestOptions& options = report.options;
  return {{"server", options.server},
          {"synthetic", options.is_synthetic()},
          {"m", options.m},
          {"a_type", std::string(Name(options.a_type))},
          {"c_type", std::string(Name(options.c_type))},
          {"mode", std::string(Name(options.mode))},
          {"concurrency", options.concurrency},
          {"connections", options.connections},
          {"inputs", options.inputs},
          {"duration_s", absl::ToDoubleSeconds(options.duration)},
          {"warmup_s", absl::ToDoubleSeconds(options.warmup)},
          {"timeout_s", absl::ToDoubleSeconds(options.timeout)},
          {"seed", options.seed},
          {"verify", std::string(Name(options.verify))}};
}

Json WeightsJson(const WeightsDescription& weights) {
  return {{"id", weights.id},
          {"format", weights.format},
          {"k", weights.k},
          {"n", weights.n},
          {"resident_bytes", weights.resident_bytes}};
}

Json LatencyJson(const LatencyRecorder& latency) {
  Json json;
  json["min"] = Microseconds(latency.min());
  json["mean"] = Microseconds(latency.mean());
  for (const Percentile& percentile : kPercentiles) {
    json[percentile.name] =
        Microseconds(latency.Percentile(percentile.percent));
  }
  json["max"] = Microseconds(latency.max());
  return json;
}

Json ServerJson(const LoopResult& loop) {
  const ServerMeans means = MeansOf(loop);
  return {{"queue_us", means.queue_us},
          {"host_to_device_us", means.host_to_device_us},
          {"kernel_us", means.kernel_us},
          {"device_to_host_us", means.device_to_host_us},
          {"total_us", means.total_us},
          {"launch_rows", means.launch_rows},
          {"launch_requests", means.launch_requests}};
}

Json ErrorsJson(const LoopResult& loop) {
  Json json = Json::object();
  for (const auto& [code, tally] : loop.errors) {
    json[absl::StatusCodeToString(code)] = {
        {"count", tally.count}, {"first_message", tally.first_message}};
  }
  return json;
}

Json VerifyJson(const VerifyReport& verify) {
  return {{"answers_compared", verify.answers_compared},
          {"answers_different", verify.answers_different},
          {"elements_checked", verify.elements_checked},
          {"worst_tolerance_used", verify.worst_tolerance_used},
          {"message", std::string(verify.status.message())}};
}

Json ResultsJson(const LoadtestReport& report) {
  const LoopResult& loop = report.loop;
  return {{"passed", report.passed()},
          {"interrupted", loop.interrupted},
          {"measured_s", absl::ToDoubleSeconds(loop.measured)},
          {"requests", loop.latency.count()},
          {"warmup_requests", loop.warmup_answers},
          {"requests_per_second", report.requests_per_second()},
          {"rows_per_second", report.rows_per_second()},
          {"latency_us", LatencyJson(loop.latency)},
          {"server_means", ServerJson(loop)},
          {"errors", ErrorsJson(loop)},
          {"verify", VerifyJson(report.verify)},
          {"cleanup_message", std::string(report.cleanup.message())}};
}

}  // namespace

double LoadtestReport::requests_per_second() const {
  return PerSecond(static_cast<double>(loop.latency.count()), loop.measured);
}

double LoadtestReport::rows_per_second() const {
  return requests_per_second() * static_cast<double>(options.m);
}

bool LoadtestReport::passed() const {
  return loop.errors.empty() && verify.status.ok() && cleanup.ok() &&
         loop.latency.count() > 0;
}

std::string FormatTable(const LoadtestReport& report) {
  return absl::StrCat(
      HeadLines(report),
      report.loop.interrupted ? "interrupted; what was measured so far:\n" : "",
      absl::StrFormat("throughput %.1f requests/s, %.1f rows/s (%d requests "
                      "in %.2f s)\n",
                      report.requests_per_second(), report.rows_per_second(),
                      report.loop.latency.count(),
                      absl::ToDoubleSeconds(report.loop.measured)),
      LatencyLines(report.loop.latency), ServerLines(report.loop),
      ErrorLines(report.loop), VerifyLines(report),
      CleanupLines(report.cleanup));
}

std::string FormatJson(const LoadtestReport& report) {
  const Json json = {
      {"schema", "qgemm.loadtest"},
      {"schema_version", kReportSchemaVersion},
      {"started_at", absl::FormatTime(absl::RFC3339_sec, report.started_at,
                                      absl::UTCTimeZone())},
      {"environment", EnvironmentJson(report)},
      {"options", OptionsJson(report)},
      {"weights", WeightsJson(report.weights)},
      {"results", ResultsJson(report)},
  };
  // Messages come from a server; bytes that are not UTF-8 must not throw.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qgemm
