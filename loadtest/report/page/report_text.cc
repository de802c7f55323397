// SPDX-License-Identifier: Apache-2.0
//
// Sentences, and the limits of --slo.

#include "loadtest/report/page/report_text.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "loadtest/report/page/quantity.h"

namespace qgemm {
namespace {

// More classes than these are only counted.
constexpr size_t kMaxNamedClasses = 4;

std::optional<SloLimit> ParseSloLimit(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  absl::string_view percent_text = parts.first;
  double percent = 0;
  absl::Duration limit;
  if (!absl::ConsumePrefix(&percent_text, "p") ||
      !absl::SimpleAtod(percent_text, &percent) || !(percent >= 0) ||
      percent > 100 || !absl::ParseDuration(parts.second, &limit) ||
      limit <= absl::ZeroDuration() || limit == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return SloLimit{std::string(text), percent, absl::ToDoubleNanoseconds(limit)};
}

std::string ClassesText(const RunResult& run) {
  if (run.classes.size() > kMaxNamedClasses) {
    return absl::StrCat(run.classes.size(), " classes of requests");
  }
  return absl::StrJoin(run.classes, ", ",
                       [](std::string* out, const ClassResult& each) {
                         absl::StrAppend(out, each.name);
                       });
}

std::string OpenText(const LoadtestReport& report, const RunResult& run) {
  const absl::string_view kind = OptionValue(report, "arrivals");
  return absl::StrCat("Open arrivals",
                      kind.empty() ? "" : absl::StrCat(" (", kind, ")"), " at ",
                      CountText(run.asked_rate), " requests/s");
}

std::string LoadText(const LoadtestReport& report, const RunResult& run) {
  if (IsOpen(run)) return OpenText(report, run);
  return absl::StrCat("Closed loop with ", CountText(run.concurrency),
                      run.concurrency == 1 ? " request" : " requests",
                      " in flight");
}

std::string DeviceText(const LoadtestEnvironment& environment) {
  const ServerDescription& server = environment.server;
  if (server.device.empty()) return server.backend;
  if (server.backend.empty()) return server.device;
  return absl::StrCat(server.device, " (", server.backend, ")");
}

std::string TransportText(const std::string& transport) {
  if (transport == "unix") return "a Unix socket";
  return transport == "tcp" ? "TCP" : transport;
}

std::string Joined(const std::vector<std::string>& parts,
                   absl::string_view separator) {
  std::vector<std::string> present;
  for (const std::string& part : parts) {
    if (!part.empty()) present.push_back(part);
  }
  return absl::StrJoin(present, separator);
}

std::string Prefixed(absl::string_view prefix, const std::string& text) {
  return text.empty() ? "" : absl::StrCat(prefix, text);
}

}  // namespace

std::vector<SloLimit> ParseSloLimits(absl::string_view slo) {
  std::vector<SloLimit> limits;
  for (const absl::string_view part : absl::StrSplit(slo, ',')) {
    if (std::optional<SloLimit> limit = ParseSloLimit(part)) {
      limits.push_back(*std::move(limit));
    }
  }
  return limits;
}

std::vector<SloLimit> SloLimitsOf(const LoadtestReport& report) {
  const absl::string_view option = OptionValue(report, "slo");
  if (!option.empty() || !report.peak) return ParseSloLimits(option);
  return ParseSloLimits(report.peak->slo);
}

absl::string_view OptionValue(const LoadtestReport& report,
                              absl::string_view name) {
  for (const auto& [option, value] : report.options) {
    if (option == name) return value;
  }
  return "";
}

bool IsOpen(const RunResult& run) { return run.asked_rate > 0; }

std::string RunSentence(const LoadtestReport& report) {
  const RunResult* run = report.headline_run();
  if (run == nullptr) return "Nothing ran.";
  const std::string time = DurationText(
      absl::ToDoubleNanoseconds(IsOpen(*run) ? run->due_time : run->measured));
  return absl::StrCat(
      Joined({LoadText(report, *run), absl::StrCat("for ", time, ":"),
              ClassesText(*run), Prefixed("on ", report.weights.text),
              Prefixed("over ", TransportText(report.environment.transport)),
              Prefixed("to ", DeviceText(report.environment))},
             " "),
      report.runs.size() > 1
          ? absl::StrCat("; the headline of ", report.runs.size(), " runs.")
          : ".");
}

std::string RunSummary(const LoadtestReport& report) {
  const RunResult* run = report.headline_run();
  if (run == nullptr) return "nothing ran";
  const std::string load =
      IsOpen(*run) ? absl::StrCat(CountText(run->asked_rate), " requests/s")
                   : absl::StrCat(CountText(run->concurrency), " in flight");
  return Joined({report.weights.text, ClassesText(*run), load,
                 DeviceText(report.environment)},
                " · ");
}

}  // namespace qgemm
