// SPDX-License-Identifier: Apache-2.0
//
// The fields of the report, each named once for writing and reading.

#include "loadtest/report/report_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "loadtest/report/histogram_json.h"
#include "loadtest/report/json_fields.h"
#include "loadtest/report/json_reader.h"
#include "loadtest/report/json_writer.h"
#include "loadtest/report/run_figures.h"

namespace qgemm {
namespace {

constexpr char kSchema[] = "qgemm.loadtest";

constexpr double kNanosecondsAMicrosecond = 1000;

std::vector<NamedValue<Verdict>> VerdictNames() {
  std::vector<NamedValue<Verdict>> names;
  for (Verdict verdict :
       {Verdict::kPassed, Verdict::kErrors, Verdict::kUsage,
        Verdict::kSloMissed, Verdict::kLag, Verdict::kWrongAnswer,
        Verdict::kNotStarted, Verdict::kNotWritten, Verdict::kInterrupted}) {
    names.push_back({verdict, std::string(Name(verdict))});
  }
  return names;
}

// Of errors; OK is none.
std::vector<NamedValue<absl::StatusCode>> ErrorCodeNames() {
  std::vector<NamedValue<absl::StatusCode>> names;
  for (int code = 1; code <= 16; ++code) {
    const auto typed = static_cast<absl::StatusCode>(code);
    names.push_back({typed, absl::StatusCodeToString(typed)});
  }
  return names;
}

ReportJson MicrosecondSummary(const Histogram& nanoseconds) {
  return SummaryJson(nanoseconds, kNanosecondsAMicrosecond);
}

// Names of a histogram's two fields: its summary, and its buckets.
struct HistogramNames {
  const char* summary;
  const char* buckets;
};

template <typename Archive, typename Value>
void DescribeTimes(Archive& archive, const HistogramNames& names,
                   Value& nanoseconds) {
  archive.Derived(names.summary,
                  [&] { return MicrosecondSummary(nanoseconds); });
  archive.Buckets(names.buckets, nanoseconds);
}

template <typename Archive, typename Value>
void DescribeAmounts(Archive& archive, const HistogramNames& names,
                     Value& amounts) {
  archive.Derived(names.summary, [&] { return SummaryJson(amounts, 1); });
  archive.Buckets(names.buckets, amounts);
}

// Archives are JsonWriter, with const values, and JsonReader.

constexpr auto kServerDescription = [](auto& archive, auto& server) {
  archive.Text("version", server.version);
  archive.Text("backend", server.backend);
  archive.Text("device", server.device);
  archive.Text("device_detail", server.device_detail);
  archive.Count("parallelism", server.parallelism);
  archive.Count("max_message_bytes", server.max_message_bytes);
  archive.Count("max_n", server.max_n);
  archive.Count("max_k", server.max_k);
  archive.Count("max_m", server.max_m);
  archive.Count("weights_bytes", server.weights_bytes);
  archive.Count("weights_budget_bytes", server.weights_budget_bytes);
  archive.Texts("formats", server.formats);
  archive.Seconds("uptime_s", server.uptime);
};

constexpr auto kEnvironment = [](auto& archive, auto& environment) {
  archive.Text("version", environment.version);
  archive.Count("client_cpus", environment.client_cpus);
  archive.Text("client_cpu", environment.client_cpu);
  archive.Text("client_system", environment.client_system);
  archive.Text("transport", environment.transport);
  archive.Object("server", environment.server, kServerDescription);
};

constexpr auto kWeights = [](auto& archive, auto& weights) {
  archive.Text("text", weights.text);
  archive.Texts("formats", weights.formats);
  archive.Count("layers", weights.layers);
  archive.Count("resident_bytes", weights.resident_bytes);
  archive.Count("largest_k", weights.largest_k);
  archive.Count("largest_n", weights.largest_n);
};

constexpr auto kClass = [](auto& archive, auto& each) {
  archive.Text("name", each.name);
  archive.Count("m", each.m);
  DescribeTimes(archive, {"latency_us", "latency_ns"}, each.latency_ns);
  DescribeTimes(archive, {"send_latency_us", "send_latency_ns"},
                each.send_latency_ns);
};

constexpr auto kServerTimes = [](auto& archive, auto& times) {
  DescribeTimes(archive, {"queue_us", "queue_ns"}, times.queue_ns);
  DescribeTimes(archive, {"host_to_device_us", "host_to_device_ns"},
                times.host_to_device_ns);
  DescribeTimes(archive, {"kernel_us", "kernel_ns"}, times.kernel_ns);
  DescribeTimes(archive, {"device_to_host_us", "device_to_host_ns"},
                times.device_to_host_ns);
  DescribeTimes(archive, {"device_us", "device_ns"}, times.device_ns);
  DescribeTimes(archive, {"total_us", "total_ns"}, times.total_ns);
  DescribeAmounts(archive, {"launch_rows", "launch_rows_histogram"},
                  times.launch_rows);
  DescribeAmounts(archive, {"launch_requests", "launch_requests_histogram"},
                  times.launch_requests);
};

constexpr auto kErrorLatency = [](auto& archive, auto& latency_ns) {
  DescribeTimes(archive, {"us", "ns"}, latency_ns);
};

constexpr auto kErrorTally = [](auto& archive, auto& tally) {
  archive.Count("count", tally.count);
  archive.Text("first_message", tally.first_message);
  archive.Optional("latency", tally.latency_ns, kErrorLatency);
};

constexpr auto kSeriesPoint = [](auto& archive, auto& point) {
  archive.Seconds("start_s", point.start, DurationSign::kAny);
  archive.Seconds("length_s", point.length);
  archive.Count("answers", point.answers);
  archive.Count("rows", point.rows);
  archive.Count("errors", point.errors);
  archive.Count("p50_ns", point.p50_ns);
  archive.Count("p99_ns", point.p99_ns);
  archive.Count("max_ns", point.max_ns);
  archive.Count("in_flight", point.in_flight);
  archive.Count("max_lag_ns", point.max_lag_ns);
  archive.Real("launch_rows", point.launch_rows);
};

template <typename Archive, typename Run>
void DescribeRunCounts(Archive& archive, Run& run) {
  archive.Count("due", run.due);
  archive.Count("sent", run.sent);
  archive.Count("answers", run.answers);
  archive.Count("rows", run.rows);
  archive.Count("bytes_sent", run.bytes_sent);
  archive.Count("bytes_received", run.bytes_received);
  archive.Count("warmup_answers", run.warmup_answers);
  archive.Count("expired", run.expired);
  archive.Count("cancelled", run.cancelled);
  archive.Count("disconnected", run.disconnected);
  archive.Count("uploads", run.uploads);
  archive.Derived("error_count", [&] { return ReportJson(run.error_count()); });
  archive.ByName("errors", run.errors, ErrorCodeNames(), kErrorTally);
}

template <typename Archive, typename Run>
void DescribeRunFigures(Archive& archive, Run& run) {
  archive.Derived("answers_per_second",
                  [&] { return ReportJson(run.answers_per_second()); });
  archive.Derived("rows_per_second",
                  [&] { return ReportJson(run.rows_per_second()); });
  archive.Derived("achieved_rate",
                  [&] { return ReportJson(run.achieved_rate()); });
  archive.Derived("latency_us",
                  [&] { return MicrosecondSummary(run.latency_ns()); });
  archive.Derived("send_latency_us",
                  [&] { return MicrosecondSummary(run.send_latency_ns()); });
  archive.Derived("client_cpu_us_an_answer", [&] {
    return ReportJson(CpuMicrosecondsAnAnswer(run.client_cpu, run.answers));
  });
  archive.Derived("server_cpu_us_an_answer", [&] {
    return ReportJson(CpuMicrosecondsAnAnswer(run.server_cpu, run.answers));
  });
}

constexpr auto kRun = [](auto& archive, auto& run) {
  archive.Text("label", run.label);
  archive.Flag("interrupted", run.interrupted);
  archive.Real("asked_rate", run.asked_rate);
  archive.Count("concurrency", run.concurrency);
  archive.Seconds("warmup_s", run.warmup);
  archive.Seconds("measured_s", run.measured);
  archive.Seconds("due_time_s", run.due_time);
  archive.Seconds("client_cpu_s", run.client_cpu);
  archive.Seconds("server_cpu_s", run.server_cpu);
  DescribeRunFigures(archive, run);
  DescribeRunCounts(archive, run);
  DescribeTimes(archive, {"lag_us", "lag_ns"}, run.lag_ns);
  archive.List("classes", run.classes, kClass);
  archive.Object("server", run.server, kServerTimes);
  archive.List("series", run.series, kSeriesPoint);
  archive.BucketsList("blocks_ns", run.blocks_ns);
};

constexpr auto kEchoRate = [](auto& archive, auto& rate) {
  archive.Count("clients", rate.clients);
  archive.Real("per_second", rate.per_second);
};

constexpr auto kYardstick = [](auto& archive, auto& yardstick) {
  archive.Count("bytes_out", yardstick.bytes_out);
  archive.Count("bytes_back", yardstick.bytes_back);
  // Null if one of the three was not measured.
  archive.Derived("overhead_us", [&] {
    const YardstickMedians medians = MediansOf(yardstick);
    return medians.overhead_us ? ReportJson(*medians.overhead_us)
                               : ReportJson();
  });
  DescribeTimes(archive, {"echo_us", "echo_ns"}, yardstick.echo_ns);
  DescribeTimes(archive, {"gemm_us", "gemm_ns"}, yardstick.gemm_ns);
  DescribeTimes(archive, {"device_us", "device_ns"}, yardstick.device_ns);
  archive.Optional("echo_rate", yardstick.echo_rate, kEchoRate);
};

constexpr auto kPeak = [](auto& archive, auto& peak) {
  archive.Text("slo", peak.slo);
  archive.Real("rate", peak.rate);
  archive.Flag("confirmed", peak.confirmed);
};

constexpr auto kVerify = [](auto& archive, auto& verify) {
  archive.Text("mode", verify.mode);
  archive.Count("answers_compared", verify.answers_compared);
  archive.Count("answers_different", verify.answers_different);
  archive.Count("elements_checked", verify.elements_checked);
  archive.Real("worst_tolerance_used", verify.worst_tolerance_used);
  archive.Status("status", verify.status);
};

constexpr auto kFinding = [](auto& archive, auto& finding) {
  archive.Named("verdict", finding.verdict, VerdictNames());
  archive.Text("message", finding.message);
};

constexpr auto kReport = [](auto& archive, auto& report) {
  archive.Time("started_at", report.started_at);
  archive.Text("title", report.title);
  archive.Text("command", report.command);
  archive.Derived("verdict", [&] {
    return ReportJson(std::string(Name(report.verdict())));
  });
  archive.Derived("exit_code", [&] {
    return ReportJson(static_cast<int>(report.verdict()));
  });
  archive.List("findings", report.findings, kFinding);
  archive.TextPairs("options", report.options);
  archive.Object("environment", report.environment, kEnvironment);
  archive.Object("weights", report.weights, kWeights);
  archive.Object("verify", report.verify, kVerify);
  archive.Optional("peak", report.peak, kPeak);
  archive.Optional("yardstick", report.yardstick, kYardstick);
  archive.Count("headline", report.headline);
  archive.List("runs", report.runs, kRun);
};

// Objects of at most so many plain fields stand on one line.
constexpr size_t kMostFieldsOnALine = 16;
constexpr size_t kIndentStep = 2;

std::string OneLine(const ReportJson& json) {
  // Messages come from a server; bytes that are not UTF-8 must not throw.
  return json.dump(-1, ' ', false, ReportJson::error_handler_t::replace);
}

bool IsPlain(const ReportJson& json) { return !json.is_structured(); }

bool IsFlat(const ReportJson& json) {
  for (const ReportJson& each : json) {
    if (!IsPlain(each)) return false;
  }
  return true;
}

bool BelongsOnOneLine(const ReportJson& json) {
  if (IsPlain(json)) return true;
  if (json.is_object()) {
    return IsFlat(json) && json.size() <= kMostFieldsOnALine;
  }
  // Lists of numbers, and of the numbers of buckets.
  for (const ReportJson& each : json) {
    if (each.is_object() || !IsFlat(each)) return false;
  }
  return true;
}

void AppendPretty(const ReportJson& json, size_t indent, std::string* text) {
  if (BelongsOnOneLine(json)) {
    absl::StrAppend(text, OneLine(json));
    return;
  }
  const bool is_object = json.is_object();
  const std::string inner(indent + kIndentStep, ' ');
  absl::string_view before = is_object ? "{\n" : "[\n";
  for (const auto& [key, value] : json.items()) {
    absl::StrAppend(text, before, inner);
    if (is_object) absl::StrAppend(text, OneLine(ReportJson(key)), ": ");
    AppendPretty(value, indent + kIndentStep, text);
    before = ",\n";
  }
  absl::StrAppend(text, "\n", std::string(indent, ' '), is_object ? "}" : "]");
}

absl::Status CheckSchema(const ReportJson& json) {
  absl::Status status;
  JsonReader reader(json, "", &status);
  std::string schema;
  reader.Text("schema", schema);
  if (status.ok() && schema != kSchema) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schema: is \"", schema, "\", not \"", kSchema, "\"; no load test"));
  }
  int version = 0;
  reader.Count("schema_version", version);
  if (status.ok() && version != kReportSchemaVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schema_version: is ", version, ", ",
        version > kReportSchemaVersion ? "newer" : "older", " than ",
        kReportSchemaVersion, ", the one that this program reads"));
  }
  return status;
}

absl::Status CheckHeadline(const LoadtestReport& report) {
  if (report.runs.empty() || report.headline < report.runs.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "headline: ", report.headline, " of ", report.runs.size(), " runs"));
}

}  // namespace

std::string FormatJson(const LoadtestReport& report) {
  JsonWriter writer;
  writer.Text("schema", kSchema);
  writer.Count("schema_version", kReportSchemaVersion);
  kReport(writer, report);
  std::string text;
  AppendPretty(writer.json(), 0, &text);
  return text + "\n";
}

absl::StatusOr<LoadtestReport> ParseReportJson(absl::string_view text) {
  const ReportJson json = ReportJson::parse(text.begin(), text.end(),
                                            /*cb=*/nullptr,
                                            /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON (", text.size(), " bytes)"));
  }
  absl::Status status = CheckSchema(json);
  LoadtestReport report;
  if (status.ok()) {
    JsonReader reader(json, "", &status);
    kReport(reader, report);
  }
  status.Update(CheckHeadline(report));
  if (!status.ok()) return status;
  return report;
}

}  // namespace qgemm
