// SPDX-License-Identifier: Apache-2.0
//
// Writes structs as JSON. JsonReader (json_reader.h) has the same methods, so
// that one description of a struct's fields both writes and reads it.

#ifndef QGEMM_LOADTEST_REPORT_JSON_WRITER_H_
#define QGEMM_LOADTEST_REPORT_JSON_WRITER_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "loadtest/report/histogram_json.h"
#include "loadtest/report/json_fields.h"

namespace qgemm {

// Adds fields to an object. A `describe` is called as (archive, value) and
// names the value's fields. Not thread-safe.
class JsonWriter {
 public:
  const ReportJson& json() const { return json_; }

  void Text(const char* name, const std::string& value) { json_[name] = value; }
  void Texts(const char* name, const std::vector<std::string>& values) {
    json_[name] = values;
  }
  void Flag(const char* name, bool value) { json_[name] = value; }
  template <typename Integer>
  void Count(const char* name, Integer value) {
    json_[name] = value;
  }
  // JSON has no infinities and no NaN: null.
  void Real(const char* name, double value) { json_[name] = value; }
  void Seconds(const char* name, absl::Duration value,
               DurationSign sign = DurationSign::kNotNegative);
  void Time(const char* name, absl::Time value);
  void Status(const char* name, const absl::Status& value);
  // An object of texts, in the order of `values`.
  void TextPairs(
      const char* name,
      const std::vector<std::pair<std::string, std::string>>& values);
  void Buckets(const char* name, const Histogram& value) {
    json_[name] = HistogramJson(value);
  }
  void BucketsList(const char* name, const std::vector<Histogram>& values);
  // For people and programs that only look: the reader skips it.
  void Derived(const char* name, absl::FunctionRef<ReportJson()> value) {
    json_[name] = value();
  }

  template <typename Enum>
  void Named(const char* name, Enum value,
             const std::vector<NamedValue<Enum>>& names) {
    json_[name] = NameOf(value, names);
  }
  template <typename Value, typename Describe>
  void Object(const char* name, const Value& value, Describe describe) {
    json_[name] = Described(value, describe);
  }
  // Left out if absent.
  template <typename Value, typename Describe>
  void Optional(const char* name, const std::optional<Value>& value,
                Describe describe) {
    if (value.has_value()) Object(name, *value, describe);
  }
  template <typename Value, typename Describe>
  void List(const char* name, const std::vector<Value>& values,
            Describe describe) {
    ReportJson list = ReportJson::array();
    for (const Value& value : values) {
      list.push_back(Described(value, describe));
    }
    json_[name] = std::move(list);
  }
  // An object with a field a key.
  template <typename Map, typename Enum, typename Describe>
  void ByName(const char* name, const Map& map,
              const std::vector<NamedValue<Enum>>& names, Describe describe) {
    ReportJson object = ReportJson::object();
    for (const auto& [key, value] : map) {
      object[NameOf(key, names)] = Described(value, describe);
    }
    json_[name] = std::move(object);
  }

 private:
  template <typename Value, typename Describe>
  static ReportJson Described(const Value& value, Describe describe) {
    JsonWriter writer;
    describe(writer, value);
    return std::move(writer.json_);
  }
  template <typename Enum>
  static std::string NameOf(Enum value,
                            const std::vector<NamedValue<Enum>>& names) {
    for (const NamedValue<Enum>& each : names) {
      if (each.value == value) return each.name;
    }
    return "";
  }

  ReportJson json_ = ReportJson::object();
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_JSON_WRITER_H_
