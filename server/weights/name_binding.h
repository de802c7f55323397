// SPDX-License-Identifier: Apache-2.0
//
// Names of what the server holds (weights, programs), the conditions under
// which one is bound, and the errors about both.

#ifndef QGEMM_SERVER_WEIGHTS_NAME_BINDING_H_
#define QGEMM_SERVER_WEIGHTS_NAME_BINDING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace qgemm {

// A name to bind to a record, and the state in which it may be. A name that is
// bound to that record already may always be bound to it again, so that a call
// can be repeated.
struct NameBinding {
  std::string name;          // empty: none
  bool create_only = false;  // only if the name is bound to nothing
  std::string if_match;      // only if it is bound to this id; empty: any
};

// Outcome of an unload by prefix.
struct DroppedNames {
  int64_t names = 0;
  bool has_more = false;  // names that were not looked at
};

// Returns OK, or INVALID_ARGUMENT: a name is [A-Za-z0-9._/-]{1,128} and not 64
// hexadecimal digits, the form of an id.
absl::Status ValidateName(absl::string_view name);

// Returns OK, or INVALID_ARGUMENT: the name or the id is none, or a condition
// is without a name or beside the other.
absl::Status Validate(const NameBinding& binding);

// Returns OK for an id or nothing, else INVALID_ARGUMENT.
absl::Status ValidateIfMatch(absl::string_view if_match);

// Returns a caller's text in quotes, safe to print and not too long.
std::string Quoted(absl::string_view text);

// True for 64 hexadecimal digits, of either case.
bool LooksLikeId(absl::string_view text);

// Errors. `noun` is the kind of record: "weights", "program". An empty
// `bound_id` says that the name is bound to nothing.
absl::Status UnknownRecord(absl::string_view noun,
                           absl::string_view name_or_id);
absl::Status AlreadyBound(absl::string_view noun, absl::string_view name,
                          absl::string_view bound_id);
absl::Status NotMatched(absl::string_view noun, absl::string_view name,
                        absl::string_view bound_id, absl::string_view if_match);
// `plural` is what is counted: "names".
absl::Status TooMany(absl::string_view plural, int64_t limit,
                     absl::string_view flag);

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_NAME_BINDING_H_
