// SPDX-License-Identifier: Apache-2.0
//
// Reads structs from JSON and names what is wrong. JsonWriter (json_writer.h)
// has the same methods, so that one description of a struct's fields does both.

#ifndef QGEMM_LOADTEST_REPORT_JSON_READER_H_
#define QGEMM_LOADTEST_REPORT_JSON_READER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "loadtest/report/histogram_json.h"
#include "loadtest/report/json_fields.h"

namespace qgemm {

// Reads fields of an object. The first that is missing or wrong sets the
// status, with its path; from then on nothing is read. Fields that nobody asks
// for are ignored. Not thread-safe.
class JsonReader {
 public:
  // `path` names the object in errors. `json` and `status` must outlive the
  // reader.
  JsonReader(const ReportJson& json, absl::string_view path,
             absl::Status* status);

  void Text(const char* name, std::string& value);
  void Texts(const char* name, std::vector<std::string>& values);
  void Flag(const char* name, bool& value);
  template <typename Integer>
  void Count(const char* name, Integer& value) {
    value = static_cast<Integer>(WholeNumber(
        name, static_cast<int64_t>(std::min<uint64_t>(
                  kMaxJsonCount, std::numeric_limits<Integer>::max()))));
  }
  // Null reads as NaN.
  void Real(const char* name, double& value);
  void Seconds(const char* name, absl::Duration& value,
               DurationSign sign = DurationSign::kNotNegative);
  void Time(const char* name, absl::Time& value);
  void Status(const char* name, absl::Status& value);
  void TextPairs(const char* name,
                 std::vector<std::pair<std::string, std::string>>& values);
  void Buckets(const char* name, Histogram& value);
  void BucketsList(const char* name, std::vector<Histogram>& values);
  void Derived(const char* /*name*/,
               absl::FunctionRef<ReportJson()> /*value*/) {}

  template <typename Enum>
  void Named(const char* name, Enum& value,
             const std::vector<NamedValue<Enum>>& names) {
    std::string text;
    Text(name, text);
    if (!status_->ok()) return;
    if (!SetByName(text, names, value)) {
      Fail(PathOf(name), absl::StrCat("\"", text, "\" is not known"));
    }
  }
  template <typename Value, typename Describe>
  void Object(const char* name, Value& value, Describe describe) {
    const ReportJson* const json = Find(name);
    if (json == nullptr) return;
    JsonReader reader(*json, PathOf(name), status_);
    describe(reader, value);
  }
  template <typename Value, typename Describe>
  void Optional(const char* name, std::optional<Value>& value,
                Describe describe) {
    if (!status_->ok() || json_.find(name) == json_.end()) return;
    Object(name, value.emplace(), describe);
  }
  template <typename Value, typename Describe>
  void List(const char* name, std::vector<Value>& values, Describe describe) {
    const ReportJson* const list = FindArray(name);
    if (list == nullptr) return;
    for (size_t i = 0; i < list->size() && status_->ok(); ++i) {
      JsonReader reader((*list)[i], ElementPath(name, i), status_);
      describe(reader, values.emplace_back());
    }
  }
  template <typename Map, typename Enum, typename Describe>
  void ByName(const char* name, Map& map,
              const std::vector<NamedValue<Enum>>& names, Describe describe) {
    const ReportJson* const object = FindObject(name);
    if (object == nullptr) return;
    for (const auto& [text, json] : object->items()) {
      const std::string path = absl::StrCat(PathOf(name), ".", text);
      Enum key;
      if (!SetByName(text, names, key)) return Fail(path, "is not known");
      JsonReader reader(json, path, status_);
      describe(reader, map[key]);
    }
  }

 private:
  template <typename Enum>
  static bool SetByName(absl::string_view text,
                        const std::vector<NamedValue<Enum>>& names,
                        Enum& value) {
    for (const NamedValue<Enum>& each : names) {
      if (each.name != text) continue;
      value = each.value;
      return true;
    }
    return false;
  }

  std::string PathOf(absl::string_view name) const;
  std::string ElementPath(absl::string_view name, size_t index) const;
  // Keeps the first failure.
  void Fail(absl::string_view path, absl::string_view message);
  void FailType(absl::string_view path, absl::string_view wanted,
                const ReportJson& json);
  // Null, and the status set, if it is missing or of another type.
  const ReportJson* Find(const char* name);
  const ReportJson* FindArray(const char* name);
  const ReportJson* FindObject(const char* name);
  // 0, and the status set, if it is not from 0 to `limit`.
  int64_t WholeNumber(const char* name, int64_t limit);

  const ReportJson& json_;
  const std::string path_;
  absl::Status* const status_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_JSON_READER_H_
