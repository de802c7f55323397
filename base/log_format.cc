// SPDX-License-Identifier: Apache-2.0
//
// Text fields follow logfmt: bare where they can be, else in quotes.

#include "base/log_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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

}  // namespace

std::string FormatText(const LogRecord& record) {
  std::string line =
      absl::StrCat(absl::string_view(SeverityName(record.severity), 1), " ",
                   UtcText(record.time), " ", PrintableText(record.file),
                   ":", record.line, "] ");
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

}  // namespace qgemm
