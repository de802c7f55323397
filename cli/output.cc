// SPDX-License-Identifier: Apache-2.0
//
// Tables, byte counts and JSON.

#include "cli/output.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"

namespace qgemm::cli {
namespace {

OrderedJson ToJson(const std::vector<ProgramPort>& ports) {
  OrderedJson array = OrderedJson::array();
  for (const ProgramPort& port : ports) {
    array.push_back({{"name", port.name},
                     {"type", std::string(Name(port.type))},
                     {"width", port.width}});
  }
  return array;
}

// "bf16 [m, 4096] attention".
std::string Text(const ProgramPort& port) {
  return absl::StrCat(Name(port.type), " [m, ", port.width, "]",
                      port.name.empty() ? "" : " ", port.name);
}

}  // namespace

std::string FormatTable(const std::vector<std::vector<std::string>>& cells) {
  std::vector<std::vector<std::string>> rows = cells;
  std::vector<size_t> widths;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = PrintableText(cell);
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string FormatFields(
    const std::vector<std::pair<std::string, std::string>>& fields) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(fields.size());
  for (const auto& [name, value] : fields) rows.push_back({name, value});
  return FormatTable(rows);
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof(kUnits) / sizeof(kUnits[0])) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string PrintableLines(absl::string_view text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n",
                       [](std::string* out, absl::string_view line) {
                         absl::StrAppend(out, PrintableText(line));
                       });
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string FormatJson(const OrderedJson& json) {
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', /*ensure_ascii=*/true,
                   OrderedJson::error_handler_t::replace) +
         "\n";
}

std::string FormatNames(const std::vector<std::string>& names,
                        int64_t name_count) {
  const int64_t more = name_count - static_cast<int64_t>(names.size());
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

std::string ShortId(const std::string& id) {
  constexpr size_t kShownDigits = 12;
  return id.substr(0, kShownDigits);
}

std::string FormatTimings(const Timings& times) {
  return absl::StrFormat("%.0f us: queue %.0f, kernel %.0f",
                         absl::ToDoubleMicroseconds(times.total),
                         absl::ToDoubleMicroseconds(times.queue),
                         absl::ToDoubleMicroseconds(times.kernel));
}

OrderedJson ToJson(const WeightsInfo& weights) {
  return {{"id", weights.id},
          {"names", weights.names},
          {"name_count", weights.name_count},
          {"n", weights.n},
          {"k", weights.k},
          {"format", weights.format},
          {"resident_bytes", weights.resident_bytes},
          {"uploaded_bytes", weights.uploaded_bytes},
          {"has_bias", weights.has_bias},
          {"spec", weights.spec}};
}

OrderedJson ToJson(const ProgramInfo& program) {
  return {{"id", program.id},
          {"names", program.names},
          {"name_count", program.name_count},
          {"inputs", ToJson(program.inputs)},
          {"outputs", ToJson(program.outputs)},
          {"input_row_bytes", program.input_row_bytes},
          {"output_row_bytes", program.output_row_bytes},
          {"ops", program.ops},
          {"weights", program.weights},
          {"resident_bytes", program.resident_bytes},
          {"text", program.text}};
}

OrderedJson ToJson(const Timings& times) {
  return {{"queue", absl::ToDoubleMicroseconds(times.queue)},
          {"host_to_device", absl::ToDoubleMicroseconds(times.host_to_device)},
          {"kernel", absl::ToDoubleMicroseconds(times.kernel)},
          {"device_to_host", absl::ToDoubleMicroseconds(times.device_to_host)},
          {"total", absl::ToDoubleMicroseconds(times.total)}};
}

std::vector<std::pair<std::string, std::string>> FieldsOf(
    const ProgramInfo& program) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"id", program.id},
      {"names", FormatNames(program.names, program.name_count)},
      {"ops", absl::StrCat(program.ops)},
      {"weights", absl::StrCat(program.weights.size())},
      {"resident", FormatBytes(program.resident_bytes)}};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    fields.emplace_back(absl::StrCat("input ", i), Text(program.inputs[i]));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    fields.emplace_back(absl::StrCat("output ", i), Text(program.outputs[i]));
  }
  return fields;
}

std::vector<std::pair<std::string, std::string>> FieldsOf(
    const WeightsInfo& weights) {
  return {{"id", weights.id},
          {"names", FormatNames(weights.names, weights.name_count)},
          {"format", weights.format},
          {"n (output features)", absl::StrCat(weights.n)},
          {"k (input features)", absl::StrCat(weights.k)},
          {"bias", weights.has_bias ? "yes" : "no"},
          {"resident", FormatBytes(weights.resident_bytes)},
          {"uploaded", FormatBytes(weights.uploaded_bytes)}};
}

}  // namespace qgemm::cli
