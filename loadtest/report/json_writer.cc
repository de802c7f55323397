// SPDX-License-Identifier: Apache-2.0
//
// The fields that need more than an assignment.

#include "loadtest/report/json_writer.h"

namespace qgemm {

void JsonWriter::Seconds(const char* name, absl::Duration value,
                         DurationSign /*sign*/) {
  json_[name] = absl::ToDoubleSeconds(value);
}

void JsonWriter::Time(const char* name, absl::Time value) {
  json_[name] =
      absl::FormatTime(absl::RFC3339_full, value, absl::UTCTimeZone());
}

void JsonWriter::Status(const char* name, const absl::Status& value) {
  json_[name] = {{"code", absl::StatusCodeToString(value.code())},
                 {"message", std::string(value.message())}};
}

void JsonWriter::TextPairs(
    const char* name,
    const std::vector<std::pair<std::string, std::string>>& values) {
  ReportJson object = ReportJson::object();
  for (const auto& [key, value] : values) object[key] = value;
  json_[name] = std::move(object);
}

void JsonWriter::BucketsList(const char* name,
                             const std::vector<Histogram>& values) {
  ReportJson list = ReportJson::array();
  for (const Histogram& value : values) list.push_back(HistogramJson(value));
  json_[name] = std::move(list);
}

}  // namespace qgemm
