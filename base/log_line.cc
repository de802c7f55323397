// SPDX-License-Identifier: Apache-2.0
//
// Text fields follow logfmt: bare where they can be, else in quotes.

#include "base/log_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/printable_text.h"

namespace qgemm {
namespace {

using Json = nlohmann::ordered_json;

const char* SeverityName(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return "INFO";
    case LogSeverity::kWarning:
      return "WARNING";
    case LogSeverity::kError:
      return "ERROR";
    case LogSeverity::kFatal:
      return "FATAL";
  }
  return "?";
}

std::string UtcText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

bool IsBare(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '=' && c != '\\';
  });
}

struct TextValue {
  std::string operator()(const std::string& text) const {
    if (text.size() <= kMaxFieldBytes && IsBare(text)) return text;
    const std::string printable = PrintableText(CutText(text, kMaxFieldBytes));
    return absl::StrCat("\"", absl::StrReplaceAll(printable, {{"\"", "\\\""}}),
                        "\"");
  }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return absl::StrCat(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(absl::Duration value) const {
    return absl::FormatDuration(absl::Trunc(value, absl::Microseconds(1)));
  }
};

// Adds a field under the name that its type gives it.
struct AddJsonValue {
  Json* object;
  const std::string& name;

  void operator()(const std::string& text) const {
    (*object)[name] = CutText(text, kMaxFieldBytes);
  }
  void operator()(absl::Duration value) const {
    (*object)[name + "_seconds"] = absl::ToDoubleSeconds(value);
  }
  template <typename Value>
  void operator()(Value value) const {
    (*object)[name] = value;
  }
};

constexpr absl::Duration kGuaranteedEvery = absl::Seconds(1);
constexpr absl::string_view kFurtherNames = "further names";

}  // namespace

std::string FormatText(const LogRecord& record) {
  std::string line =
      absl::StrCat(absl::string_view(SeverityName(record.severity), 1), " ",
                   UtcText(record.time), " ", PrintableText(record.file), ":",
                   record.line, "] ");
  if (record.event.empty()) {
    line += PrintableText(CutText(record.message, kMaxMessageBytes));
  } else {
    line += record.event;
  }
  for (const LogField& field : record.fields) {
    absl::StrAppend(&line, " ", field.name, "=",
                    std::visit(TextValue(), field.value));
  }
  if (record.suppressed > 0) {
    absl::StrAppend(&line, " suppressed=", record.suppressed);
  }
  return line;
}

std::string FormatJson(const LogRecord& record) {
  Json object = {{"time", UtcText(record.time)},
                 {"severity", SeverityName(record.severity)},
                 {"file", std::string(record.file)},
                 {"line", record.line}};
  if (record.event.empty()) {
    object["message"] = CutText(record.message, kMaxMessageBytes);
  } else {
    object["event"] = record.event;
  }
  for (const LogField& field : record.fields) {
    std::visit(AddJsonValue{&object, field.name}, field.value);
  }
  if (record.suppressed > 0) object["suppressed"] = record.suppressed;
  constexpr int kOneLine = -1;
  return object.dump(kOneLine, ' ', /*ensure_ascii=*/true,
                     Json::error_handler_t::replace);
}

void LogLimiter::Bucket::Refill(const LineRate& rate, absl::Time now) {
  // A new bucket is full.
  const double refill =
      rate.lines_per_second * absl::ToDoubleSeconds(now - refilled_);
  lines_ = std::min(rate.burst, lines_ + refill);
  refilled_ = now;
}

void LogLimiter::Bucket::TakeLine() { lines_ = std::max(0.0, lines_ - 1); }

LogLimiter::Name& LogLimiter::Find(absl::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  return names_[std::string(names_.size() < limits_.max_names ? name
                                                              : kFurtherNames)];
}

LogLimiter::Verdict LogLimiter::Admit(absl::string_view name, absl::Time now) {
  MutexLock lock(&mutex_);
  Name& found = Find(name);
  found.bucket.Refill(limits_.name, now);
  total_.Refill(limits_.total, now);
  const bool guaranteed = now - found.last_admitted >= kGuaranteedEvery;
  if (!found.bucket.has_line() || !(total_.has_line() || guaranteed)) {
    ++found.suppressed;
    found.last_refused = now;
    return {};
  }
  found.bucket.TakeLine();
  total_.TakeLine();
  found.last_admitted = now;
  return {true, std::exchange(found.suppressed, 0)};
}

std::vector<LogLimiter::Suppressed> LogLimiter::TakeSuppressed(
    absl::Time now, absl::Duration quiet) {
  MutexLock lock(&mutex_);
  std::vector<Suppressed> taken;
  for (auto& [name, state] : names_) {
    if (state.suppressed == 0 || now - state.last_refused < quiet) continue;
    taken.push_back({name, std::exchange(state.suppressed, 0)});
  }
  return taken;
}

}  // namespace qgemm
