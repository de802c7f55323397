// SPDX-License-Identifier: Apache-2.0
//
// One function a table.

#include "client/loadtest/report/page/report_tables.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/loadtest/report/page/quantity.h"
#include "client/loadtest/report/page/report_text.h"
#include "client/loadtest/report/page/server_plots.h"
#include "client/loadtest/report/page/sweep_plots.h"

namespace qgemm {
namespace {

constexpr double kPercents[] = {50, 90, 99, 99.9, 99.99};

std::string Count(int64_t value) {
  return CountText(static_cast<double>(value));
}

// In microseconds; a dash for what was never measured.
std::string PercentileCell(const Histogram& ns, double percent) {
  if (ns.empty()) return MicrosecondsText(NAN);
  return MicrosecondsText(static_cast<double>(ns.Percentile(percent)));
}

std::string MeanCell(const Histogram& ns) {
  return MicrosecondsText(ns.empty() ? NAN : ns.mean());
}

HtmlRow PercentileRow(const std::string& name, const Histogram& ns) {
  HtmlRow row = {{name, Count(ns.count()), MeanCell(ns)}, "", {}};
  for (const double percent : kPercents) {
    row.cells.push_back(PercentileCell(ns, percent));
  }
  row.cells.push_back(PercentileCell(ns, 100));
  return row;
}

HtmlRow StageRow(const StackedBar::Part& part, int index, const Histogram* ns) {
  HtmlRow row = {
      {absl::StrCat(index + 1, " ", part.name), MicrosecondsText(part.ns)},
      "",
      index};
  row.cells.push_back(ns == nullptr ? "" : PercentileCell(*ns, 50));
  row.cells.push_back(ns == nullptr ? "" : PercentileCell(*ns, 99));
  return row;
}

// Processor time of one answer; a dash where it is not known.
std::string CpuCell(absl::Duration cpu, const RunResult& run) {
  if (run.answers == 0 || cpu <= absl::ZeroDuration()) return "–";
  return DurationText(absl::ToDoubleNanoseconds(cpu) /
                      static_cast<double>(run.answers));
}

std::string RunName(const LoadtestReport& report, size_t index,
                    const std::optional<Turn>& turn) {
  const std::string& label = report.runs[index].label;
  const std::string name =
      label.empty() ? absl::StrCat("run ", index + 1) : label;
  const bool is_turn = turn && turn->run == index;
  return is_turn ? absl::StrCat(name, " · ", turn->name) : name;
}

HtmlRow RunRow(const LoadtestReport& report, size_t index,
               const std::optional<Turn>& turn) {
  const RunResult& run = report.runs[index];
  const Histogram latency_ns = run.latency_ns();
  HtmlRow row = {
      {RunName(report, index, turn),
       IsOpen(run) ? CountText(run.achieved_rate()) : "",
       CountText(run.answers_per_second()), CountText(run.rows_per_second())},
      index == report.headline ? "headline" : "",
      {}};
  for (const double percent : {50.0, 99.0, 99.9}) {
    row.cells.push_back(PercentileCell(latency_ns, percent));
  }
  row.cells.push_back(Count(run.error_count()));
  row.cells.push_back(CountText(run.server.launch_rows.mean()));
  row.cells.push_back(PercentileCell(run.lag_ns, 99));
  return row;
}

std::string VerifyText(const VerifyReport& verify) {
  if (verify.mode == "none" && verify.status.ok()) return "not asked for";
  return verify.status.ok() ? "nothing wrong"
                            : std::string(verify.status.message());
}

}  // namespace

HtmlTable PercentileTable(const RunResult& run) {
  HtmlTable table = {
      "Latency",
      "µs",
      {"", "answers", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"},
      1,
      {}};
  const bool is_open = IsOpen(run);
  table.rows.push_back(PercentileRow(
      is_open ? "from the intended start" : "all answers", run.latency_ns()));
  if (is_open) {
    table.rows.push_back(PercentileRow("from the send", run.send_latency_ns()));
  }
  if (run.classes.size() > 1) {
    for (const ClassResult& each : run.classes) {
      table.rows.push_back(PercentileRow(each.name, each.latency_ns));
    }
  }
  return table;
}

HtmlTable RunsTable(const LoadtestReport& report) {
  HtmlTable table = {"All runs",
                     "latencies in µs",
                     {"run", "requests/s", "answers/s", "rows/s", "p50", "p99",
                      "p99.9", "errors", "rows a launch", "lag p99"},
                     1,
                     {}};
  const std::optional<Turn> turn = FindTurn(report);
  for (size_t i = 0; i < report.runs.size(); ++i) {
    table.rows.push_back(RunRow(report, i, turn));
  }
  return table;
}

HtmlTable TimingTable(const RunResult& run) {
  const ServerTimes& server = run.server;
  const StackedBar bar = TimingBar(run);
  const Histogram* stages[] = {&server.queue_ns,  &server.host_to_device_ns,
                               &server.kernel_ns, &server.device_to_host_ns,
                               nullptr,           nullptr};
  HtmlTable table = {
      "Stages of a request", "µs", {"", "mean", "p50", "p99"}, 1, {}};
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    table.rows.push_back(
        StageRow(bar.parts[i], static_cast<int>(i), stages[i]));
  }
  const Histogram latency_ns = run.send_latency_ns();
  table.rows.push_back({{"server in all", MeanCell(server.total_ns),
                         PercentileCell(server.total_ns, 50),
                         PercentileCell(server.total_ns, 99)},
                        "sum",
                        {}});
  table.rows.push_back(
      {{"send to answer", MeanCell(latency_ns), PercentileCell(latency_ns, 50),
        PercentileCell(latency_ns, 99)},
       "sum",
       {}});
  return table;
}

HtmlTable YardstickTable(const Yardstick& yardstick) {
  const StackedBar bar = YardstickBar(yardstick);
  const Histogram* parts[] = {&yardstick.echo_ns, &yardstick.device_ns,
                              nullptr};
  HtmlTable table = {
      "One request in flight",
      absl::StrCat(
          "µs; ", BytesText(static_cast<double>(yardstick.bytes_out)), " out, ",
          BytesText(static_cast<double>(yardstick.bytes_back)), " back"),
      {"", "p50", "p99"},
      1,
      {}};
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const std::string name = absl::StrCat(i + 1, " ", bar.parts[i].name);
    table.rows.push_back(
        {{name, MicrosecondsText(bar.parts[i].ns),
          parts[i] == nullptr ? "" : PercentileCell(*parts[i], 99)},
         "",
         static_cast<int>(i)});
  }
  table.rows.push_back({{"round trip", PercentileCell(yardstick.gemm_ns, 50),
                         PercentileCell(yardstick.gemm_ns, 99)},
                        "sum",
                        {}});
  return table;
}

HtmlTable OutcomeTable(const RunResult& run) {
  HtmlTable table = {"Requests", "", {}, 1, {}};
  const std::pair<const char*, int64_t> always[] = {
      {"due", run.due},
      {"sent", run.sent},
      {"answered", run.answers},
      {"answered in warm-up", run.warmup_answers},
      {"errors", run.error_count()}};
  const std::pair<const char*, int64_t> if_any[] = {
      {"deadline expired", run.expired},
      {"cancelled", run.cancelled},
      {"disconnected", run.disconnected},
      {"uploads", run.uploads}};
  for (const auto& [name, count] : always) {
    table.rows.push_back({{name, Count(count)}, "", {}});
  }
  for (const auto& [name, count] : if_any) {
    if (count != 0) table.rows.push_back({{name, Count(count)}, "", {}});
  }
  return table;
}

HtmlTable ErrorTable(const RunResult& run) {
  HtmlTable table = {"Errors",
                     "by code, with the first message",
                     {"code", "message", "count"},
                     2,
                     {}};
  for (const auto& [code, tally] : run.errors) {
    table.rows.push_back({{absl::StatusCodeToString(code), tally.first_message,
                           Count(tally.count)},
                          "",
                          {}});
  }
  return table;
}

HtmlTable CostTable(const RunResult& run) {
  HtmlTable table = {"Generator and processors", "", {}, 1, {}};
  if (!run.lag_ns.empty()) {
    for (const auto& [name, percent] :
         {std::pair<const char*, double>{"lag p50", 50},
          {"lag p99", 99},
          {"lag max", 100}}) {
      const auto lag = static_cast<double>(run.lag_ns.Percentile(percent));
      table.rows.push_back({{name, DurationText(lag)}, "", {}});
    }
  }
  table.rows.push_back(
      {{"client CPU an answer", CpuCell(run.client_cpu, run)}, "", {}});
  table.rows.push_back(
      {{"server CPU an answer", CpuCell(run.server_cpu, run)}, "", {}});
  const double seconds = absl::ToDoubleSeconds(run.measured);
  const auto rate = [&](int64_t bytes) {
    return seconds > 0 ? BytesText(static_cast<double>(bytes) / seconds) + "/s"
                       : "–";
  };
  table.rows.push_back({{"sent", rate(run.bytes_sent)}, "", {}});
  table.rows.push_back({{"received", rate(run.bytes_received)}, "", {}});
  return table;
}

HtmlTable VerifyTable(const VerifyReport& verify) {
  HtmlTable table = {"Answers checked", verify.mode, {}, 1, {}};
  table.rows = {
      {{"found", VerifyText(verify)}, verify.status.ok() ? "" : "bad", {}},
      {{"compared bit by bit", Count(verify.answers_compared)}, "", {}},
      {{"of these different", Count(verify.answers_different)}, "", {}},
      {{"elements against fp64", Count(verify.elements_checked)}, "", {}}};
  if (verify.elements_checked > 0) {
    table.rows.push_back(
        {{"largest error / tolerance", CountText(verify.worst_tolerance_used)},
         "",
         {}});
  }
  return table;
}

HtmlTable EnvironmentTable(const LoadtestReport& report) {
  const LoadtestEnvironment& environment = report.environment;
  const ServerDescription& server = environment.server;
  const WeightsSummary& weights = report.weights;
  HtmlTable table = {"Environment", "", {}, 2, {}};
  const std::pair<const char*, std::string> rows[] = {
      {"load test", environment.version},
      {"server", server.version},
      {"backend", server.backend},
      {"device", server.device},
      {"device detail", server.device_detail},
      {"parallelism", Count(server.parallelism)},
      {"transport", environment.transport},
      {"client CPU", environment.client_cpu},
      {"client threads", Count(environment.client_cpus)},
      {"client system", environment.client_system},
      {"weights", weights.text},
      {"layers", Count(weights.layers)},
      {"resident", BytesText(static_cast<double>(weights.resident_bytes))}};
  for (const auto& [name, value] : rows) {
    if (!value.empty()) table.rows.push_back({{name, value}, "", {}});
  }
  return table;
}

HtmlTable OptionTable(const LoadtestReport& report) {
  HtmlTable table = {"Options in effect", "", {}, 2, {}};
  for (const auto& [name, value] : report.options) {
    table.rows.push_back({{absl::StrCat("--", name), value}, "", {}});
  }
  return table;
}

}  // namespace qgemm
