// SPDX-License-Identifier: Apache-2.0

#include "server/weights/name_binding.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr size_t kMaxNameLength = 128;
constexpr size_t kIdLength = 64;

bool IsNameCharacter(unsigned char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '/' || c == '-';
}

}  // namespace

std::string Quoted(absl::string_view text) {
  const bool is_long = text.size() > kMaxNameLength;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxNameLength)),
                      is_long ? "\"…" : "\"");
}

bool LooksLikeId(absl::string_view text) {
  return text.size() == kIdLength &&
         std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

absl::Status ValidateName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("name ", Quoted(name), ": ", name.size(),
                     " characters; a name has 1 to ", kMaxNameLength));
  }
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsNameCharacter(static_cast<unsigned char>(name[i]))) {
      return absl::InvalidArgumentError(
          absl::StrCat("name ", Quoted(name), ": character ", i,
                       " is not one of A-Z a-z 0-9 . _ / -"));
    }
  }
  if (LooksLikeId(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name ", Quoted(name), ": ", kIdLength,
                     " hexadecimal digits are an id, not a name"));
  }
  return absl::OkStatus();
}

absl::Status ValidateIfMatch(absl::string_view if_match) {
  if (if_match.empty() || LooksLikeId(if_match)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("if_match = ", Quoted(if_match), ": an id has ", kIdLength,
                   " hexadecimal digits"));
}

absl::Status Validate(const NameBinding& binding) {
  const bool is_conditional = binding.create_only || !binding.if_match.empty();
  if (binding.name.empty()) {
    if (!is_conditional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "create_only and if_match are conditions on a name; set name too");
  }
  if (binding.create_only && !binding.if_match.empty()) {
    return absl::InvalidArgumentError(
        "create_only and if_match contradict each other; set one of them");
  }
  RETURN_IF_ERROR(ValidateIfMatch(binding.if_match));
  return ValidateName(binding.name);
}

absl::Status UnknownRecord(absl::string_view noun,
                           absl::string_view name_or_id) {
  return absl::NotFoundError(
      absl::StrCat(noun, " ", Quoted(name_or_id), ": no such ",
                   LooksLikeId(name_or_id) ? "id" : "name", " on this server"));
}

absl::Status AlreadyBound(absl::string_view noun, absl::string_view name,
                          absl::string_view bound_id) {
  return absl::AlreadyExistsError(absl::StrCat(
      "create_only: name ", Quoted(name), " is bound to ", noun, " ", bound_id,
      "; choose another name, or send if_match with that id"));
}

absl::Status NotMatched(absl::string_view noun, absl::string_view name,
                        absl::string_view bound_id,
                        absl::string_view if_match) {
  return absl::FailedPreconditionError(absl::StrCat(
      "if_match = ", Quoted(if_match), ", but ", Quoted(name), " is bound to ",
      bound_id.empty() ? "nothing" : absl::StrCat(noun, " ", bound_id),
      "; look at what is bound to it and decide again"));
}

absl::Status TooMany(absl::string_view plural, int64_t limit,
                     absl::string_view flag) {
  return absl::ResourceExhaustedError(
      absl::StrCat(limit, " ", plural, " are held, which is the limit (", flag,
                   "); unload some or raise it"));
}

}  // namespace qgemm
