// SPDX-License-Identifier: Apache-2.0
//
// One function a table.

#include "loadtest/report/page/report_tables.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "loadtest/report/page/quantity.h"
#include "loadtest/report/page/report_text.h"
#include "loadtest/report/page/server_plots.h"
#include "loadtest/report/page/sweep_plots.h"

namespace qgemm {
namespace {

constexpr double kPercents[] = {50, 90, 99, 99.9, 99.99};

// Of a table of words and their values, both text.
std::vector<HtmlColumn> TwoOfWords() {
  return {{"", Cells::kWords}, {"", Cells::kWords}};
}

void AddRow(std::vector<std::string> cells, HtmlTable* table) {
  table->rows.push_back({std::move(cells), "", {}});
}

void AddSumRow(std::vector<std::string> cells, HtmlTable* table) {
  table->rows.push_back({std::move(cells), "sum", {}});
}

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

std::vector<std::string> PercentileCells(const std::string& name,
                                         const Histogram& ns) {
  std::vector<std::string> cells = {name, Count(ns.count()), MeanCell(ns)};
  for (const double percent : kPercents) {
    cells.push_back(PercentileCell(ns, percent));
  }
  cells.push_back(PercentileCell(ns, 100));
  return cells;
}

// Part number `index` of a bar, with its percentiles if it was measured.
HtmlRow PartRow(const StackedBar& bar, size_t index,
                std::vector<std::string> percentiles) {
  const StackedBar::Part& part = bar.parts[index];
  HtmlRow row = {
      {absl::StrCat(index + 1, " ", part.name), MicrosecondsText(part.ns)},
      "",
      static_cast<int>(index)};
  for (std::string& cell : percentiles) row.cells.push_back(std::move(cell));
  return row;
}

// Processor time of one answer; a dash where it is not known.
std::string CpuCell(absl::Duration cpu, const RunResult& run) {
  if (run.answers == 0 || cpu <= absl::ZeroDuration()) return "–";
  return DurationText(absl::ToDoubleNanoseconds(cpu) /
                      static_cast<double>(run.answers));
}

std::string BytesRateCell(int64_t bytes, const RunResult& run) {
  const double seconds = absl::ToDoubleSeconds(run.measured);
  if (!(seconds > 0)) return "–";
  return BytesText(static_cast<double>(bytes) / seconds) + "/s";
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
       IsOpen(run) ? CountText(run.achieved_rate()) : "–",
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
  if (!verify.status.ok()) return std::string(verify.status.message());
  return verify.mode == "none" ? "not asked for" : "nothing wrong";
}

void AddLagRows(const Histogram& lag_ns, HtmlTable* table) {
  if (lag_ns.empty()) return;
  const std::pair<const char*, double> percentiles[] = {
      {"lag p50", 50}, {"lag p99", 99}, {"lag max", 100}};
  for (const auto& [name, percent] : percentiles) {
    const auto lag = static_cast<double>(lag_ns.Percentile(percent));
    AddRow({name, DurationText(lag)}, table);
  }
}

}  // namespace

HtmlTable PercentileTable(const RunResult& run) {
  HtmlTable table;
  table.caption = "Latency";
  table.unit = "µs";
  table.columns = {
      {"", Cells::kWords}, {"answers"}, {"mean"}, {"p50"}, {"p90"}, {"p99"},
      {"p99.9"},           {"p99.99"},  {"max"}};
  const bool is_open = IsOpen(run);
  const std::string first = is_open ? "from the intended start" : "all answers";
  AddRow(PercentileCells(first, run.latency_ns()), &table);
  if (is_open) {
    AddRow(PercentileCells("from the send", run.send_latency_ns()), &table);
  }
  if (run.classes.size() < 2) return table;
  for (const ClassResult& each : run.classes) {
    AddRow(PercentileCells(each.name, each.latency_ns), &table);
  }
  return table;
}

HtmlTable RunsTable(const LoadtestReport& report) {
  HtmlTable table;
  table.caption = "All runs";
  table.unit = "latencies in µs";
  table.columns = {{"run", Cells::kWords},
                   {"requests/s"},
                   {"answers/s"},
                   {"rows/s"},
                   {"p50"},
                   {"p99"},
                   {"p99.9"},
                   {"errors"},
                   {"rows a launch"},
                   {"lag p99"}};
  const std::optional<Turn> turn = FindTurn(report);
  for (size_t i = 0; i < report.runs.size(); ++i) {
    table.rows.push_back(RunRow(report, i, turn));
  }
  return table;
}

HtmlTable TimingTable(const RunResult& run) {
  const ServerTimes& server = run.server;
  const StackedBar bar = TimingBar(run);
  const Histogram* stages[] = {&server.queue_ns, &server.host_to_device_ns,
                               &server.kernel_ns, &server.device_to_host_ns};
  HtmlTable table;
  table.caption = "Stages of a request";
  table.unit = "µs";
  table.columns = {{"", Cells::kWords}, {"mean"}, {"p50"}, {"p99"}};
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    std::vector<std::string> percentiles = {"", ""};
    if (i < std::size(stages)) {
      percentiles = {PercentileCell(*stages[i], 50),
                     PercentileCell(*stages[i], 99)};
    }
    table.rows.push_back(PartRow(bar, i, std::move(percentiles)));
  }
  const Histogram latency_ns = run.send_latency_ns();
  AddSumRow({"server in all", MeanCell(server.total_ns),
             PercentileCell(server.total_ns, 50),
             PercentileCell(server.total_ns, 99)},
            &table);
  AddSumRow({"send to answer", MeanCell(latency_ns),
             PercentileCell(latency_ns, 50), PercentileCell(latency_ns, 99)},
            &table);
  return table;
}

HtmlTable YardstickTable(const Yardstick& yardstick) {
  const StackedBar bar = YardstickBar(yardstick);
  HtmlTable table;
  table.caption = "One request in flight";
  table.unit = absl::StrCat(
      "µs; ", BytesText(static_cast<double>(yardstick.bytes_out)), " out, ",
      BytesText(static_cast<double>(yardstick.bytes_back)), " back");
  table.columns = {{"", Cells::kWords}, {"p50"}, {"p99"}};
  const std::string p99[] = {PercentileCell(yardstick.echo_ns, 99),
                             PercentileCell(yardstick.device_ns, 99), ""};
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    table.rows.push_back(PartRow(bar, i, {p99[i]}));
  }
  AddSumRow({"round trip", PercentileCell(yardstick.gemm_ns, 50),
             PercentileCell(yardstick.gemm_ns, 99)},
            &table);
  if (yardstick.echo_rate.has_value()) {
    absl::StrAppend(&table.caption, "; ", yardstick.echo_rate->clients,
                    " clients get ", CountText(yardstick.echo_rate->per_second),
                    " echoes/s");
  }
  return table;
}

HtmlTable OutcomeTable(const RunResult& run) {
  HtmlTable table;
  table.caption = "Requests";
  AddRow({"due", Count(run.due)}, &table);
  AddRow({"sent", Count(run.sent)}, &table);
  AddRow({"answered", Count(run.answers)}, &table);
  AddRow({"answered in warm-up", Count(run.warmup_answers)}, &table);
  AddRow({"errors", Count(run.error_count())}, &table);
  const std::pair<const char*, int64_t> if_any[] = {
      {"deadline expired", run.expired},
      {"cancelled", run.cancelled},
      {"disconnected", run.disconnected},
      {"uploads", run.uploads}};
  for (const auto& [name, count] : if_any) {
    if (count != 0) AddRow({name, Count(count)}, &table);
  }
  return table;
}

HtmlTable ErrorTable(const RunResult& run) {
  HtmlTable table;
  table.caption = "Errors";
  table.unit = "by code, with the first message";
  table.columns = {{"code", Cells::kWords},
                   {"count", Cells::kNumbers},
                   {"message", Cells::kWords}};
  for (const auto& [code, tally] : run.errors) {
    AddRow({absl::StatusCodeToString(code), Count(tally.count),
            tally.first_message},
           &table);
  }
  return table;
}

HtmlTable CostTable(const RunResult& run) {
  HtmlTable table;
  table.caption = "Generator and processors";
  AddLagRows(run.lag_ns, &table);
  AddRow({"client CPU an answer", CpuCell(run.client_cpu, run)}, &table);
  AddRow({"server CPU an answer", CpuCell(run.server_cpu, run)}, &table);
  AddRow({"sent", BytesRateCell(run.bytes_sent, run)}, &table);
  AddRow({"received", BytesRateCell(run.bytes_received, run)}, &table);
  return table;
}

HtmlTable VerifyTable(const VerifyReport& verify) {
  HtmlTable table;
  table.caption = "Answers checked";
  table.unit = verify.mode;
  AddRow({"found", VerifyText(verify)}, &table);
  if (!verify.status.ok()) table.rows.back().css = "bad";
  AddRow({"compared bit by bit", Count(verify.answers_compared)}, &table);
  AddRow({"of these different", Count(verify.answers_different)}, &table);
  AddRow({"elements against fp64", Count(verify.elements_checked)}, &table);
  if (verify.elements_checked > 0) {
    AddRow(
        {"largest error / tolerance", CountText(verify.worst_tolerance_used)},
        &table);
  }
  return table;
}

HtmlTable EnvironmentTable(const LoadtestReport& report) {
  const LoadtestEnvironment& environment = report.environment;
  const ServerDescription& server = environment.server;
  const WeightsSummary& weights = report.weights;
  HtmlTable table;
  table.caption = "Environment";
  table.columns = TwoOfWords();
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
    if (!value.empty()) AddRow({name, value}, &table);
  }
  return table;
}

HtmlTable OptionTable(const LoadtestReport& report) {
  HtmlTable table;
  table.caption = "Options in effect";
  table.columns = TwoOfWords();
  for (const auto& [name, value] : report.options) {
    AddRow({absl::StrCat("--", name), value}, &table);
  }
  return table;
}

}  // namespace qgemm
