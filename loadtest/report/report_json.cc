// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSchema[] = "qgemm.loadtest";

constexpr std::pair<double, const char*> kPercentiles[] = {
    {50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}, {99.99, "p99.99"}};

// Figures for people; values are divided by `unit`.
Json Summary(const Histogram& histogram, double unit) {
  Json json = {{"count", histogram.count()},
               {"min", static_cast<double>(histogram.min()) / unit},
               {"mean", histogram.mean() / unit}};
  for (const auto& [percent, name] : kPercentiles) {
    json[name] = static_cast<double>(histogram.Percentile(percent)) / unit;
  }
  json["max"] = static_cast<double>(histogram.max()) / unit;
  return json;
}

Json SummaryUs(const Histogram& nanoseconds) {
  return Summary(nanoseconds, /*unit=*/1000);
}

// All that the histogram counted: buckets are [lowest, highest, count].
Json Buckets(const Histogram& histogram) {
  Json buckets = Json::array();
  histogram.ForEachBucket([&](const Histogram::Bucket& bucket) {
    buckets.push_back(
        Json::array({bucket.lowest, bucket.highest, bucket.count}));
  });
  return {{"min", histogram.min()},
          {"max", histogram.max()},
          {"sum", histogram.sum()},
          {"buckets", std::move(buckets)}};
}

// Adds `name`_us, the summary, and `name`_ns, the buckets.
void AddTimes(const std::string& name, const Histogram& nanoseconds,
              Json* json) {
  (*json)[name + "_us"] = SummaryUs(nanoseconds);
  (*json)[name + "_ns"] = Buckets(nanoseconds);
}

// Adds `name`, the summary, and `name`_histogram, the buckets.
void AddAmounts(const std::string& name, const Histogram& amounts, Json* json) {
  (*json)[name] = Summary(amounts, /*unit=*/1);
  (*json)[name + "_histogram"] = Buckets(amounts);
}

template <typename T>
Json List(const std::vector<T>& values, Json (*to_json)(const T&)) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json(value));
  return list;
}

Json ToJson(const ServerInfo& server) {
  return {{"version", server.version},
          {"backend", server.backend},
          {"device", server.device},
          {"device_detail", server.device_detail},
          {"parallelism", server.parallelism},
          {"max_message_bytes", server.max_message_bytes},
          {"max_n", server.max_n},
          {"max_k", server.max_k},
          {"max_m", server.max_m},
          {"weights_bytes", server.weights_bytes},
          {"weights_budget_bytes", server.weights_budget_bytes},
          {"formats", server.formats},
          {"uptime_s", absl::ToDoubleSeconds(server.uptime)}};
}

Json ToJson(const LoadtestEnvironment& environment) {
  return {{"version", environment.version},
          {"client_cpus", environment.client_cpus},
          {"client_cpu", environment.client_cpu},
          {"client_system", environment.client_system},
          {"transport", environment.transport},
          {"server", ToJson(environment.server)}};
}

Json ToJson(const WeightsSummary& weights) {
  return {{"text", weights.text},
          {"formats", weights.formats},
          {"layers", weights.layers},
          {"programs", weights.programs},
          {"resident_bytes", weights.resident_bytes},
          {"largest_k", weights.largest_k},
          {"largest_n", weights.largest_n}};
}

Json ToJson(const ClassResult& each) {
  Json json = {{"name", each.name}, {"m", each.m}};
  AddTimes("latency", each.latency_ns, &json);
  AddTimes("send_latency", each.send_latency_ns, &json);
  return json;
}

Json ToJson(const ServerHistograms& server) {
  Json json;
  AddTimes("queue", server.queue_ns, &json);
  AddTimes("host_to_device", server.host_to_device_ns, &json);
  AddTimes("kernel", server.kernel_ns, &json);
  AddTimes("device_to_host", server.device_to_host_ns, &json);
  AddTimes("device", server.device_ns, &json);
  AddTimes("total", server.total_ns, &json);
  AddAmounts("launch_rows", server.launch_rows, &json);
  AddAmounts("launch_requests", server.launch_requests, &json);
  return json;
}

Json ToJson(const std::map<absl::StatusCode, ErrorTally>& errors) {
  Json json = Json::object();
  for (const auto& [code, tally] : errors) {
    Json& each = json[absl::StatusCodeToString(code)];
    each = {{"count", tally.count}, {"first_message", tally.first_message}};
    if (!tally.latency_ns.has_value()) continue;
    each["latency"] = {{"us", SummaryUs(*tally.latency_ns)},
                       {"ns", Buckets(*tally.latency_ns)}};
  }
  return json;
}

Json ToJson(const SeriesPoint& point) {
  return {{"start_s", absl::ToDoubleSeconds(point.start)},
          {"length_s", absl::ToDoubleSeconds(point.length)},
          {"answers", point.answers},
          {"rows", point.rows},
          {"errors", point.errors},
          {"p50_ns", point.p50_ns},
          {"p99_ns", point.p99_ns},
          {"max_ns", point.max_ns},
          {"in_flight", point.in_flight},
          {"max_lag_ns", point.max_lag_ns},
          {"launch_rows", point.launch_rows}};
}

Json ToJson(const RunResult& run) {
  Json json = {{"label", run.label},
               {"interrupted", run.interrupted},
               {"asked_rate", run.asked_rate},
               {"concurrency", run.concurrency},
               {"warmup_s", absl::ToDoubleSeconds(run.warmup)},
               {"measured_s", absl::ToDoubleSeconds(run.measured)},
               {"due_time_s", absl::ToDoubleSeconds(run.due_time)},
               {"client_cpu_s", absl::ToDoubleSeconds(run.client_cpu)},
               {"server_cpu_s", absl::ToDoubleSeconds(run.server_cpu)},
               {"answers_per_second", run.answers_per_second()},
               {"rows_per_second", run.rows_per_second()},
               {"achieved_rate", run.achieved_rate()},
               {"latency_us", SummaryUs(run.latency_ns())},
               {"send_latency_us", SummaryUs(run.send_latency_ns())},
               {"client_cpu_us_an_answer", run.client_cpu_us_per_answer()},
               {"server_cpu_us_an_answer", run.server_cpu_us_per_answer()},
               {"due", run.due},
               {"sent", run.sent},
               {"answers", run.answers},
               {"rows", run.rows},
               {"bytes_sent", run.bytes_sent},
               {"bytes_received", run.bytes_received},
               {"warmup_answers", run.warmup_answers},
               {"expired", run.expired},
               {"cancelled", run.cancelled},
               {"disconnected", run.disconnected},
               {"uploads", run.uploads},
               {"error_count", run.error_count()},
               {"errors", ToJson(run.errors)}};
  AddTimes("lag", run.lag_ns, &json);
  json["classes"] = List<ClassResult>(run.classes, ToJson);
  json["server"] = ToJson(run.server);
  json["series"] = List<SeriesPoint>(run.series, ToJson);
  json["blocks_ns"] = List<Histogram>(run.blocks_ns, Buckets);
  return json;
}

Json ToJson(const Baseline& baseline) {
  Json json = {{"bytes_out", baseline.bytes_out},
               {"bytes_back", baseline.bytes_back},
               {"overhead_us", nullptr}};
  if (const auto overhead = baseline.overhead_us()) {
    json["overhead_us"] = *overhead;
  }
  AddTimes("echo", baseline.echo_ns, &json);
  AddTimes("gemm", baseline.gemm_ns, &json);
  AddTimes("device", baseline.device_ns, &json);
  if (baseline.echo_rate.has_value()) {
    json["echo_rate"] = {{"clients", baseline.echo_rate->clients},
                         {"per_second", baseline.echo_rate->per_second}};
  }
  return json;
}

Json ToJson(const VerifyReport& verify) {
  return {{"mode", verify.mode},
          {"answers_compared", verify.answers_compared},
          {"answers_different", verify.answers_different},
          {"elements_checked", verify.elements_checked},
          {"worst_tolerance_used", verify.worst_tolerance_used},
          {"status",
           {{"code", absl::StatusCodeToString(verify.status.code())},
            {"message", std::string(verify.status.message())}}}};
}

Json ToJson(const Finding& finding) {
  return {{"verdict", std::string(Name(finding.verdict))},
          {"message", finding.message}};
}

Json ToJson(const LoadtestReport& report) {
  Json options = Json::object();
  for (const auto& [name, value] : report.options) options[name] = value;
  Json json = {
      {"schema", kSchema},
      {"schema_version", kReportSchemaVersion},
      {"started_at", absl::FormatTime(absl::RFC3339_full, report.started_at,
                                      absl::UTCTimeZone())},
      {"title", report.title},
      {"command", report.command},
      {"verdict", std::string(Name(report.verdict()))},
      {"exit_code", static_cast<int>(report.verdict())},
      {"findings", List<Finding>(report.findings, ToJson)},
      {"options", std::move(options)},
      {"changed_options", report.changed_options},
      {"environment", ToJson(report.environment)},
      {"weights", ToJson(report.weights)},
      {"verify", ToJson(report.verify)}};
  if (report.peak.has_value()) {
    json["peak"] = {{"slo", report.peak->slo},
                    {"rate", report.peak->rate},
                    {"confirmed", report.peak->confirmed}};
  }
  if (report.baseline.has_value()) json["baseline"] = ToJson(*report.baseline);
  json["headline"] = report.headline;
  json["runs"] = Json::array();
  for (const RunResult& run : report.runs) {
    Json& added = json["runs"].emplace_back(ToJson(run));
    const std::optional<TokenFigures> tokens = report.tokens(run);
    if (!tokens.has_value()) continue;
    added["calls_of_token"] = report.calls_of_token;
    added["tokens_per_second"] = tokens->per_second;
    if (tokens->client_per_second.has_value()) {
      added["client_tokens_per_second"] = *tokens->client_per_second;
    }
    added["token_ms"] = absl::ToDoubleMilliseconds(tokens->time);
  }
  return json;
}

std::string OneLine(const Json& json) {
  // Messages come from a server; bytes that are not UTF-8 must not throw.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// A line a field, so that a difference of two reports can be read.
std::string FormatJson(const LoadtestReport& report) {
  std::string text = "{";
  const Json json = ToJson(report);
  for (const auto& [key, value] : json.items()) {
    absl::StrAppend(&text, text.size() > 1 ? ",\n " : "\n ", OneLine(Json(key)),
                    ": ", OneLine(value));
  }
  return text + "\n}\n";
}

}  // namespace qgemm::loadtest
