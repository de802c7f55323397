// SPDX-License-Identifier: Apache-2.0
//
// Checks of types and ranges.

#include "loadtest/report/json_reader.h"

#include <cmath>

#include "absl/status/statusor.h"

namespace qgemm {
namespace {

// 272 years: their nanoseconds fit 63 bits.
constexpr double kMaxSeconds = static_cast<double>(int64_t{1} << 33);

constexpr int kLastStatusCode = 16;

}  // namespace

JsonReader::JsonReader(const ReportJson& json, absl::string_view path,
                       absl::Status* status)
    : json_(json), path_(path), status_(status) {
  if (!json.is_object()) FailType(path, "an object", json);
}

std::string JsonReader::PathOf(absl::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", name);
}

std::string JsonReader::ElementPath(absl::string_view name,
                                    size_t index) const {
  return absl::StrCat(PathOf(name), "[", index, "]");
}

void JsonReader::Fail(absl::string_view path, absl::string_view message) {
  status_->Update(
      absl::InvalidArgumentError(absl::StrCat(path, ": ", message)));
}

void JsonReader::FailType(absl::string_view path, absl::string_view wanted,
                          const ReportJson& json) {
  Fail(path, absl::StrCat("must be ", wanted, ", is ", json.type_name()));
}

const ReportJson* JsonReader::Find(const char* name) {
  if (!status_->ok()) return nullptr;
  const auto found = json_.find(name);
  if (found != json_.end()) return &*found;
  Fail(PathOf(name), "is missing");
  return nullptr;
}

const ReportJson* JsonReader::FindArray(const char* name) {
  const ReportJson* const json = Find(name);
  if (json == nullptr || json->is_array()) return json;
  FailType(PathOf(name), "an array", *json);
  return nullptr;
}

const ReportJson* JsonReader::FindObject(const char* name) {
  const ReportJson* const json = Find(name);
  if (json == nullptr || json->is_object()) return json;
  FailType(PathOf(name), "an object", *json);
  return nullptr;
}

int64_t JsonReader::WholeNumber(const char* name, int64_t limit) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return 0;
  // A number above the largest int64_t is negative when it is read as one.
  const int64_t value = json->is_number_integer() ? json->get<int64_t>() : -1;
  if (value >= 0 && value <= limit) return value;
  Fail(PathOf(name), absl::StrCat("must be a whole number from 0 to ", limit,
                                  ", is ", json->dump()));
  return 0;
}

void JsonReader::Text(const char* name, std::string& value) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  if (!json->is_string()) return FailType(PathOf(name), "a string", *json);
  value = json->get<std::string>();
}

void JsonReader::Texts(const char* name, std::vector<std::string>& values) {
  const ReportJson* const list = FindArray(name);
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    const ReportJson& json = (*list)[i];
    if (!json.is_string()) {
      return FailType(ElementPath(name, i), "a string", json);
    }
    values.push_back(json.get<std::string>());
  }
}

void JsonReader::Flag(const char* name, bool& value) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return FailType(PathOf(name), "a boolean", *json);
  value = json->get<bool>();
}

void JsonReader::Real(const char* name, double& value) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  if (json->is_null()) {
    value = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  if (!json->is_number()) return FailType(PathOf(name), "a number", *json);
  value = json->get<double>();
}

void JsonReader::Seconds(const char* name, absl::Duration& value,
                         DurationSign sign) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  if (!json->is_number()) return FailType(PathOf(name), "a number", *json);
  const double seconds = json->get<double>();
  const double least = sign == DurationSign::kAny ? -kMaxSeconds : 0;
  if (seconds < least || seconds >= kMaxSeconds) {
    return Fail(PathOf(name),
                absl::StrCat("must be ", least, " to ", kMaxSeconds,
                             " seconds, is ", json->dump()));
  }
  value = absl::Nanoseconds(std::llround(seconds * 1e9));
}

void JsonReader::Time(const char* name, absl::Time& value) {
  std::string text;
  Text(name, text);
  if (!status_->ok()) return;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &value, &error)) {
    Fail(PathOf(name),
         absl::StrCat("\"", text, "\" is no RFC 3339 time: ", error));
  }
}

void JsonReader::Status(const char* name, absl::Status& value) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  JsonReader reader(*json, PathOf(name), status_);
  std::string code_name;
  std::string message;
  reader.Text("code", code_name);
  reader.Text("message", message);
  if (!status_->ok()) return;
  for (int code = 0; code <= kLastStatusCode; ++code) {
    const auto typed = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(typed) != code_name) continue;
    value = absl::Status(typed, message);
    return;
  }
  reader.Fail(reader.PathOf("code"),
              absl::StrCat("\"", code_name, "\" is no status code"));
}

void JsonReader::TextPairs(
    const char* name,
    std::vector<std::pair<std::string, std::string>>& values) {
  const ReportJson* const object = FindObject(name);
  if (object == nullptr) return;
  for (const auto& [key, value] : object->items()) {
    if (!value.is_string()) {
      return FailType(absl::StrCat(PathOf(name), ".", key), "a string", value);
    }
    values.emplace_back(key, value.get<std::string>());
  }
}

void JsonReader::Buckets(const char* name, Histogram& value) {
  const ReportJson* const json = Find(name);
  if (json == nullptr) return;
  absl::StatusOr<Histogram> histogram = HistogramFromJson(*json, PathOf(name));
  status_->Update(histogram.status());
  if (histogram.ok()) value = *std::move(histogram);
}

void JsonReader::BucketsList(const char* name, std::vector<Histogram>& values) {
  const ReportJson* const list = FindArray(name);
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    absl::StatusOr<Histogram> histogram =
        HistogramFromJson((*list)[i], ElementPath(name, i));
    if (!histogram.ok()) return status_->Update(histogram.status());
    values.push_back(*std::move(histogram));
  }
}

}  // namespace qgemm
