// SPDX-License-Identifier: Apache-2.0
//
// JSON that an operator writes, read strictly: a text that is not wholly
// understood is refused, so that nothing runs by settings other than meant.
// The fields and what they mean are their readers'.

#ifndef QGEMM_BASE_STRICT_JSON_H_
#define QGEMM_BASE_STRICT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace qgemm::strict_json {

using Json = nlohmann::ordered_json;

// The kind of text, for its limit and error messages. Borrowed during the call.
struct TextRules {
  absl::string_view prefix;  // begins each message
  size_t max_bytes = 0;
  absl::string_view shape;  // "{\"clients\": [...]}"
};

// Returns the object that is the whole of `text`. Whatever is nested deeper
// than 8 levels is left out of it. Errors: INVALID_ARGUMENT if the text is too
// long or no object, or if a key comes twice in one object.
absl::StatusOr<Json> ParseObject(absl::string_view text,
                                 const TextRules& rules);

// The value as an error message shows it, in some 60 bytes of UTF-8.
std::string Shown(const Json& value);

// INVALID_ARGUMENT: "WHERE = VALUE; allowed: LEGAL".
absl::Status Illegal(absl::string_view where, const Json& value,
                     absl::string_view legal);

// INVALID_ARGUMENT: "WHERE is missing; allowed: LEGAL".
absl::Status Missing(absl::string_view where, absl::string_view legal);

// INVALID_ARGUMENT, which begins with `where`, if the object has a key that is
// none of `names`.
absl::Status CheckKeys(const Json& object, absl::string_view where,
                       const std::vector<std::string>& names);

// The value if it is a whole number from 0 to `most`.
absl::optional<int64_t> CountOf(const Json& value, int64_t most);

}  // namespace qgemm::strict_json

#endif  // QGEMM_BASE_STRICT_JSON_H_
