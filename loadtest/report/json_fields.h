// SPDX-License-Identifier: Apache-2.0
//
// What JsonWriter and JsonReader are told of a field beside its name.

#ifndef QGEMM_LOADTEST_REPORT_JSON_FIELDS_H_
#define QGEMM_LOADTEST_REPORT_JSON_FIELDS_H_

#include <string>

namespace qgemm {

// Which durations a field may have.
enum class DurationSign { kNotNegative, kAny };

// A value of an enum and its text in JSON.
template <typename Enum>
struct NamedValue {
  Enum value;
  std::string name;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_JSON_FIELDS_H_
