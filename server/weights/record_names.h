// SPDX-License-Identifier: Apache-2.0
//
// The names of one record and the clients that hold it, and the part of both
// that a caller sees.

#ifndef QGEMM_SERVER_WEIGHTS_RECORD_NAMES_H_
#define QGEMM_SERVER_WEIGHTS_RECORD_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/weights/owners.h"

namespace qgemm {

// Names of a record that a listing has at most.
inline constexpr size_t kMaxListedNames = 100;

// A client that has bound names or loaded records.
struct Owner {
  std::string id;  // of the client; empty on a server without a table
  int64_t names = 0;
  int64_t records = 0;  // that it holds
  // Ids of those that it holds without a name, keys of the store.
  std::set<absl::string_view> unnamed;
};

// Names as a listing has them.
struct ListedNames {
  std::vector<std::string> names;  // sorted; the first kMaxListedNames
  int64_t count = 0;               // of all
};

// A record is held by each owner of a name of it, and by each client that
// loaded it without a name, until that binds one. Names, the id and owners are
// borrowed. Not thread-safe.
class RecordNames {
 public:
  using Names = std::set<absl::string_view>;

  explicit RecordNames(absl::string_view id) : id_(id) {}

  const Names& all() const { return names_; }
  size_t holders() const { return holds_.size(); }
  bool IsHeldBy(absl::string_view owner_id) const;

  // Adds a name, or the owner as a holder without one unless it holds the
  // record already. Returns true if it did not hold the record before.
  bool Add(absl::string_view name, Owner* owner);
  bool AddUnnamed(Owner* owner);
  // Removes a name of that owner. Returns true if it does not hold the record
  // any more.
  bool Remove(absl::string_view name, Owner* owner);
  // Removes a holder that has no names.
  void RemoveUnnamed(Owner* owner);

  template <typename Visit>
  void VisitHolders(const Visit& visit) const {
    for (const Hold& hold : holds_) visit(hold.owner);
  }

  // True if a caller who knows the id may use the record: it may read one of
  // the names, or holds the record without one.
  bool IsVisibleTo(const Principal* caller) const;

  // The first name with one of the prefixes, which are as ReadablePrefixes
  // returns them; empty if there is none.
  absl::string_view FirstWith(
      absl::Span<const absl::string_view> prefixes) const;

  // The names that the caller may read and that come after `after`, in the
  // order of bytes; the count is of those before it too.
  ListedNames ListFor(const Principal* caller, absl::string_view after) const;

 private:
  struct Hold {
    Owner* owner = nullptr;
    int64_t names = 0;  // 0: it holds the record without one
  };

  const Hold* FindHold(absl::string_view owner_id) const;
  Hold* FindHold(absl::string_view owner_id);
  bool HasNameWith(absl::Span<const std::string> prefixes) const;
  int64_t CountFor(absl::Span<const absl::string_view> prefixes,
                   absl::string_view owner_id) const;
  void Begin(Owner* owner, int64_t names);
  void End(Hold* hold);

  const absl::string_view id_;
  Names names_;
  std::vector<Hold> holds_;  // few: one a client
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_RECORD_NAMES_H_
