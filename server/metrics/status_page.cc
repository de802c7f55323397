// SPDX-License-Identifier: Apache-2.0
//
// The browser runs only the script below, and gets nothing from elsewhere: the
// page's policy allows what has their hashes.

#include "server/metrics/status_page.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

constexpr absl::string_view kStyle = R"css(
:root{color-scheme:light dark;--line:#d8dbe2;--soft:#5c6470;--card:#f5f6f8}
@media(prefers-color-scheme:dark){
:root{--line:#363b45;--soft:#a2a9b5;--card:#1d2026}
body{background:#14151a;color:#e6e8ec}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;
max-width:80rem}
h1{font-size:1.3rem;margin:0 0 .2rem}h2{font-size:1rem;margin:0 0 .5rem}
p{margin:.2rem 0;color:var(--soft);overflow-wrap:anywhere}
.state{display:inline-block;padding:0 .6em;border-radius:1em;color:#fff;
background:#8a6100}
.serving{background:#1b7a3d}.failed,.silent{background:#b3261e}
main{display:grid;gap:1rem;margin-top:1rem;
grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr))}
section{background:var(--card);border:1px solid var(--line);
border-radius:.5rem;padding:.8rem;min-width:0;overflow-x:auto}
.wide{grid-column:1/-1}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:.15rem .3rem;text-align:right;border-top:1px solid var(--line);
font-weight:400}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
thead th{color:var(--soft);border:0}
)css";

// Takes the body of a fresh page every two seconds while somebody looks.
constexpr absl::string_view kScript = R"js(
setInterval(async()=>{
if(document.hidden)return;
try{
const page=await(await fetch("/",{cache:"no-store"})).text();
const fresh=new DOMParser().parseFromString(page,"text/html");
document.body.replaceWith(document.adoptNode(fresh.body));
document.documentElement.dataset.refreshed="yes";
}catch(error){
const state=document.querySelector(".state");
state.textContent="no answer";state.className="state silent";
}},2000);
)js";

std::string HashSource(absl::string_view text) {
  Sha256 hash;
  hash.Update(text);
  const Sha256Digest digest = hash.Finish();
  return absl::StrCat(
      "'sha256-",
      absl::Base64Escape(absl::string_view(
          reinterpret_cast<const char*>(digest.data()), digest.size())),
      "'");
}

std::string Policy() {
  return absl::StrCat("default-src 'none'; script-src ", HashSource(kScript),
                      "; style-src ", HashSource(kStyle),
                      "; connect-src 'self'; base-uri 'none'; "
                      "form-action 'none'; frame-ancestors 'none'");
}

// Three digits with the largest of the units, each 1000 or 1024 of the one
// before, that leaves a whole part.
std::string WithUnit(double value, double step,
                     const std::vector<absl::string_view>& units) {
  size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const bool whole = std::abs(value) >= 100 || value == std::floor(value);
  return absl::StrCat(
      whole ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.3g", value),
      units[unit]);
}

std::string Count(double value) {
  return WithUnit(value, 1000, {"", " k", " M", " G", " T"});
}
std::string Bytes(double value) {
  return WithUnit(value, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}
std::string Rate(std::optional<double> value) {
  return value.has_value() ? absl::StrCat(Count(*value), "/s") : "–";
}
std::string ByteRate(std::optional<double> value) {
  return value.has_value() ? absl::StrCat(Bytes(*value), "/s") : "–";
}
std::string Latency(std::optional<double> seconds) {
  if (!seconds.has_value()) return "–";
  return absl::StrCat("≤ ",
                      WithUnit(*seconds * 1e6, 1000, {" µs", " ms", " s"}));
}
// "used of limit"; 0 is no limit.
std::string Share(double used, double limit) {
  if (limit <= 0) return Bytes(used);
  return absl::StrFormat("%s of %s (%.0f %%)", Bytes(used), Bytes(limit),
                         100 * used / limit);
}

using Row = std::vector<std::string>;

// Rows of text, escaped here; the first column names the rest. One with many
// columns has the page's width. An empty table shows `otherwise`.
std::string Section(absl::string_view title, const Row& heads,
                    const std::vector<Row>& rows,
                    absl::string_view otherwise = "") {
  constexpr size_t kManyColumns = 4;
  std::string html = absl::StrCat(
      heads.size() >= kManyColumns ? "<section class=\"wide\">" : "<section>",
      "<h2>", EscapeHtml(title), "</h2>");
  if (rows.empty()) {
    absl::StrAppend(&html, "<p>", EscapeHtml(otherwise), "</p></section>\n");
    return html;
  }
  absl::StrAppend(&html, "<table>");
  const auto append_row = [&html](const Row& row, absl::string_view cell) {
    absl::StrAppend(&html, "<tr>");
    for (const std::string& text : row) {
      absl::StrAppend(&html, "<", cell, ">", EscapeHtml(text), "</", cell, ">");
    }
    absl::StrAppend(&html, "</tr>");
  };
  if (!heads.empty()) {
    absl::StrAppend(&html, "<thead>");
    append_row(heads, "th");
    absl::StrAppend(&html, "</thead>");
  }
  for (const Row& row : rows) append_row(row, "td");
  absl::StrAppend(&html, "</table></section>\n");
  return html;
}

std::string Header(const FamilySnapshot& now, const HealthReport& health,
                   absl::Time wall_now) {
  constexpr absl::string_view kBuild = "qgemm_build_info";
  const char* const state = NameOf(health.state);
  const double start = now.Sum({"process_start_time_seconds"});
  const absl::Duration uptime = absl::Floor(
      wall_now - absl::FromUnixSeconds(std::llround(start)), absl::Seconds(1));
  return absl::StrCat(
      "<header><h1>qgemm_server <span class=\"state ", state, "\">", state,
      "</span></h1>", health.reason.empty() ? "" : "<p>",
      EscapeHtml(health.reason), health.reason.empty() ? "" : "</p>", "<p>",
      EscapeHtml(absl::StrCat("version ", now.Label(kBuild, "version"),
                              ", backend ", now.Label(kBuild, "backend"),
                              " on ", now.Label(kBuild, "device"), " (",
                              now.Label(kBuild, "detail"), "), up ",
                              absl::FormatDuration(uptime))),
      "</p></header>\n");
}

std::string Load(const FamilyChange& change) {
  const FamilySnapshot& now = *change.now;
  const SeriesName gemm = {"qgemm_rpc_latency_seconds", "method", "Gemm"};
  const SeriesName run = {"qgemm_rpc_latency_seconds", "method", "Run"};
  const SeriesName stream = {"qgemm_rpc_latency_seconds", "method",
                             "GemmStream"};
  return Section(
      "Load", {},
      {{"Requests", Rate(change.Rate({"qgemm_requests_computed_total"}))},
       {"Rows", Rate(change.Rate({"qgemm_rows_computed_total"}))},
       {"Gemm p50", Latency(change.Quantile(gemm, 0.5))},
       {"Gemm p99", Latency(change.Quantile(gemm, 0.99))},
       {"Run p99", Latency(change.Quantile(run, 0.99))},
       {"GemmStream p99", Latency(change.Quantile(stream, 0.99))},
       {"Computed since the start",
        Count(now.Sum({"qgemm_requests_computed_total"}))}});
}

std::string Queue(const FamilySnapshot& now) {
  return Section(
      "Queue", {},
      {{"Requests that wait", Count(now.Sum({"qgemm_queue_requests"}))},
       {"Their rows", Count(now.Sum({"qgemm_queue_rows"}))},
       {"Their operands", Bytes(now.Sum({"qgemm_queue_bytes"}))},
       {"Launches in flight", Count(now.Sum({"qgemm_launches_in_flight"}))},
       {"Answers that wait", Count(now.Sum({"qgemm_answers_waiting"}))},
       {"Their operands", Bytes(now.Sum({"qgemm_answers_waiting_bytes"}))}});
}

std::string Memory(const FamilySnapshot& now) {
  return Section(
      "Memory", {},
      {{"Weights", Share(now.Sum({"qgemm_weights_bytes"}),
                         now.Sum({"qgemm_weights_budget_bytes"}))},
       {"Operands", Share(now.Sum({"qgemm_staging_in_use_bytes"}),
                          now.Sum({"qgemm_staging_limit_bytes"}))},
       {"Process", Share(now.Sum({"process_resident_memory_bytes"}),
                         now.Sum({"qgemm_memory_limit_bytes"}))},
       {"Open files", absl::StrCat(Count(now.Sum({"process_open_fds"})), " of ",
                                   Count(now.Sum({"process_max_fds"})))}});
}

std::string Connections(const FamilyChange& change) {
  constexpr absl::string_view kBytes = "qgemm_transport_bytes_total";
  const FamilySnapshot& now = *change.now;
  return Section(
      "Connections", {},
      {{"TCP", Count(now.Sum({"qgemm_connections", "transport", "tcp"}))},
       {"Unix", Count(now.Sum({"qgemm_connections", "transport", "unix"}))},
       {"TLS", Count(now.Sum({"qgemm_connections", "transport", "tls"}))},
       {"Streams", Count(now.Sum({"qgemm_streams"}))},
       {"Uploads", Count(now.Sum({"qgemm_uploads"}))},
       {"Received", ByteRate(change.Rate({kBytes, "direction", "received"}))},
       {"Sent", ByteRate(change.Rate({kBytes, "direction", "sent"}))}});
}

// A row for each value of the label that has counted anything.
void AppendCounted(const FamilyChange& change, const SeriesName& family,
                   absl::string_view title, std::vector<Row>* rows) {
  for (const std::string& value :
       change.now->ValuesOf(family.family, family.label)) {
    const SeriesName series = {family.family, family.label, value};
    const double total = change.now->Sum(series);
    if (total == 0) continue;
    rows->push_back({absl::StrCat(title, ": ", value), Count(total),
                     Rate(change.Rate(series))});
  }
}

std::string Refusals(const FamilyChange& change) {
  std::vector<Row> rows;
  AppendCounted(change, {"qgemm_requests_dropped_total", "reason"}, "Request",
                &rows);
  AppendCounted(change, {"qgemm_connections_refused_total", "reason"},
                "Connection", &rows);
  AppendCounted(change, {"qgemm_calls_timed_out_total", "kind"}, "Timed out",
                &rows);
  AppendCounted(change, {"qgemm_launch_errors_total", "code"}, "Launch", &rows);
  return Section("Refused and failed", {"", "total", "rate"}, rows,
                 "nothing since the start");
}

// Layers or clients, the busiest first; those without memory and requests are
// left out.
std::string TrafficSection(const FamilyChange& change, absl::string_view label,
                           absl::string_view title) {
  const FamilySnapshot& now = *change.now;
  const auto family = [&](absl::string_view figure) {
    return absl::StrCat("qgemm_", label, "_", figure);
  };
  const std::string requests = family("requests_total");
  const std::string rows_total = family("rows_total");
  const std::string dropped = family("dropped_total");
  const std::string bytes = family("bytes");
  const bool has_bytes = now.Find(bytes) != nullptr;
  std::vector<std::pair<double, Row>> sorted;
  for (const std::string& value : now.ValuesOf(requests, label)) {
    const double total = now.Sum({requests, label, value});
    const double refused = now.Sum({dropped, label, value});
    const double held = now.Sum({bytes, label, value});
    if (total + refused + held == 0) continue;
    Row row = {value, Count(total), Rate(change.Rate({requests, label, value})),
               Rate(change.Rate({rows_total, label, value})), Count(refused)};
    if (has_bytes) row.push_back(Bytes(held));
    sorted.emplace_back(-total, std::move(row));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& one, const auto& other) {
                     return one.first < other.first;
                   });
  Row heads = {std::string(label), "requests", "rate", "rows", "dropped"};
  if (has_bytes) heads.push_back("memory");
  std::vector<Row> rows;
  for (auto& [order, row] : sorted) {
    if (rows.size() == StatusPage::kMaxRows) break;
    rows.push_back(std::move(row));
  }
  return Section(title, heads, rows, "none yet");
}

std::string Gpus(const FamilySnapshot& now) {
  std::vector<Row> rows;
  for (const std::string& gpu : now.ValuesOf("qgemm_gpu_info", "gpu")) {
    const auto of = [&](absl::string_view family) {
      return now.Sum({family, "gpu", gpu});
    };
    rows.push_back(
        {gpu,
         Share(of("qgemm_gpu_memory_used_bytes"), of("qgemm_gpu_memory_bytes")),
         absl::StrFormat("%.0f %%", 100 * of("qgemm_gpu_utilization_ratio")),
         absl::StrFormat("%.0f W", of("qgemm_gpu_power_watts")),
         absl::StrFormat("%.0f °C", of("qgemm_gpu_temperature_celsius")),
         Count(of("qgemm_gpu_ecc_errors_total"))});
  }
  if (rows.empty()) return "";
  return Section("GPUs", {"", "memory", "busy", "power", "heat", "ECC errors"},
                 rows);
}

std::string Page(const FamilyChange& change, const HealthReport& health,
                 absl::Time wall_now) {
  const FamilySnapshot& now = *change.now;
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">"
      "<title>qgemm_server: ",
      NameOf(health.state), "</title><style>", kStyle, "</style><script>",
      kScript, "</script></head>\n<body>", Header(now, health, wall_now),
      "<main>", Load(change), Queue(now), Memory(now), Connections(change),
      Refusals(change), Gpus(now), TrafficSection(change, "layer", "Layers"),
      TrafficSection(change, "client", "Clients"),
      "</main><p>All figures: <a href=\"/metrics\">/metrics</a></p></body>"
      "</html>\n");
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"\"", "&quot;"},
                                    {"'", "&#39;"}});
}

const FamilySnapshot* StatusPage::Before(absl::Time now) const {
  for (auto look = looks_.rbegin(); look != looks_.rend(); ++look) {
    const absl::Duration age = now - look->time;
    if (age >= absl::Seconds(1) && age <= kMaxAge) return &*look;
  }
  return nullptr;
}

HttpResponse StatusPage::Render(MetricFamilies families,
                                const HealthReport& health, absl::Time now,
                                absl::Time wall_now) {
  FamilySnapshot snapshot{now, std::move(families)};
  HttpResponse response;
  response.body = Page({&snapshot, Before(now)}, health, wall_now);
  response.content_type = "text/html; charset=utf-8";
  response.security_policy = Policy();
  if (looks_.empty() || now - looks_.back().time >= absl::Seconds(1)) {
    if (looks_.size() == 2) looks_.erase(looks_.begin());
    looks_.push_back(std::move(snapshot));
  }
  return response;
}

}  // namespace qgemm
