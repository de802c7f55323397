// SPDX-License-Identifier: Apache-2.0

#include "base/strict_json.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace qgemm::strict_json {
namespace {

// Values are copied and freed by recursion, which a deep one would take beyond
// the stack.
constexpr int kMaxDepth = 8;

// Tells of a key that comes twice, of which the parser would keep the last.
class DuplicateFinder {
 public:
  void See(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys_.back().insert(parsed.get<std::string>()).second &&
        duplicate_.empty()) {
      duplicate_ = Shown(parsed);
    }
  }
  const std::string& duplicate() const { return duplicate_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string duplicate_;
};

}  // namespace

absl::StatusOr<Json> ParseObject(absl::string_view text,
                                 const TextRules& rules) {
  if (text.size() > rules.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        rules.prefix, "the text has more than ", rules.max_bytes, " bytes"));
  }
  DuplicateFinder finder;
  Json root = Json::parse(
      text.begin(), text.end(),
      [&finder](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth > kMaxDepth) return false;  // left out of what is parsed
        finder.See(event, parsed);
        return true;
      },
      /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        rules.prefix, "the text is no JSON object; allowed: ", rules.shape));
  }
  if (!finder.duplicate().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rules.prefix, "the field ", finder.duplicate(),
                     " comes twice in one object"));
  }
  return root;
}

std::string Shown(const Json& value) {
  constexpr size_t kMostShown = 60;
  if (value.is_structured()) return absl::StrCat("an ", value.type_name());
  // Replaces bytes that are no UTF-8 instead of throwing.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

absl::Status Illegal(absl::string_view where, const Json& value,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " = ", Shown(value), "; allowed: ", legal));
}

absl::Status Missing(absl::string_view where, absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, " is missing; allowed: ", legal));
}

absl::Status CheckKeys(const Json& object, absl::string_view where,
                       const std::vector<std::string>& names) {
  for (const auto& [key, value] : object.items()) {
    if (absl::c_linear_search(names, key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, " holds ", Shown(Json(key)),
        ", which is no field; allowed: ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::optional<int64_t> CountOf(const Json& value, int64_t most) {
  // A number beyond int64 would wrap if it were taken as one.
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return absl::nullopt;
  }
  return value.get<int64_t>();
}

}  // namespace qgemm::strict_json
