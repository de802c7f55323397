// SPDX-License-Identifier: Apache-2.0
//
// Names with one prefix stand side by side, so that a part of them is found
// without a look at the others.

#include "server/weights/record_names.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace qgemm {
namespace {

// Calls visit(name) for the names with the prefix, in order, behind `after`.
template <typename Visit>
void VisitWith(const RecordNames::Names& names, absl::string_view prefix,
               absl::string_view after, const Visit& visit) {
  auto name =
      prefix > after ? names.lower_bound(prefix) : names.upper_bound(after);
  for (; name != names.end() && absl::StartsWith(*name, prefix); ++name) {
    if (!visit(*name)) return;
  }
}

}  // namespace

auto RecordNames::FindHold(absl::string_view owner_id) const -> const Hold* {
  for (const Hold& hold : holds_) {
    if (hold.owner->id == owner_id) return &hold;
  }
  return nullptr;
}

auto RecordNames::FindHold(absl::string_view owner_id) -> Hold* {
  for (Hold& hold : holds_) {
    if (hold.owner->id == owner_id) return &hold;
  }
  return nullptr;
}

void RecordNames::Begin(Owner* owner, int64_t names) {
  holds_.push_back({owner, names});
  ++owner->records;
}

void RecordNames::End(Hold* hold) {
  --hold->owner->records;
  holds_.erase(holds_.begin() + (hold - holds_.data()));
}

bool RecordNames::IsHeldBy(absl::string_view owner_id) const {
  return FindHold(owner_id) != nullptr;
}

bool RecordNames::Add(absl::string_view name, Owner* owner) {
  names_.insert(name);
  ++owner->names;
  Hold* const hold = FindHold(owner->id);
  if (hold == nullptr) {
    Begin(owner, 1);
    return true;
  }
  if (hold->names++ == 0) owner->unnamed.erase(id_);
  return false;
}

bool RecordNames::AddUnnamed(Owner* owner) {
  if (IsHeldBy(owner->id)) return false;
  Begin(owner, 0);
  owner->unnamed.insert(id_);
  return true;
}

bool RecordNames::Remove(absl::string_view name, Owner* owner) {
  names_.erase(name);
  --owner->names;
  Hold* const hold = FindHold(owner->id);
  if (--hold->names > 0) return false;
  End(hold);
  return true;
}

void RecordNames::RemoveUnnamed(Owner* owner) {
  owner->unnamed.erase(id_);
  End(FindHold(owner->id));
}

bool RecordNames::HasNameWith(absl::Span<const std::string> prefixes) const {
  return std::any_of(
      prefixes.begin(), prefixes.end(), [this](const std::string& prefix) {
        const auto name = names_.lower_bound(prefix);
        return name != names_.end() && absl::StartsWith(*name, prefix);
      });
}

bool RecordNames::IsVisibleTo(const Principal* caller) const {
  if (ManagesAll(caller)) return true;
  // Most records have names of one prefix.
  if (!names_.empty() && MayRead(caller, *names_.begin())) return true;
  const Hold* const hold = FindHold(caller->client_id);
  if (hold != nullptr && hold->names == 0) return true;
  return names_.size() > 1 &&
         (HasNameWith(caller->names) || HasNameWith(caller->read));
}

absl::string_view RecordNames::FirstWith(
    absl::Span<const absl::string_view> prefixes) const {
  for (const absl::string_view prefix : prefixes) {
    const auto name = names_.lower_bound(prefix);
    if (name != names_.end() && absl::StartsWith(*name, prefix)) return *name;
  }
  return {};
}

int64_t RecordNames::CountFor(absl::Span<const absl::string_view> prefixes,
                              absl::string_view owner_id) const {
  // A client reads what it owns.
  if (holders() == 1 && IsHeldBy(owner_id)) {
    return static_cast<int64_t>(names_.size());
  }
  int64_t count = 0;
  for (const absl::string_view prefix : prefixes) {
    VisitWith(names_, prefix, "", [&](absl::string_view) {
      ++count;
      return true;
    });
  }
  return count;
}

ListedNames RecordNames::ListFor(const Principal* caller,
                                 absl::string_view after) const {
  const bool manages_all = ManagesAll(caller);
  const std::vector<absl::string_view> prefixes = ReadablePrefixes(caller);
  ListedNames listed;
  for (const absl::string_view prefix : prefixes) {
    VisitWith(names_, prefix, after, [&](absl::string_view name) {
      if (listed.names.size() == kMaxListedNames) return false;
      listed.names.emplace_back(name);
      return true;
    });
  }
  listed.count = manages_all ? static_cast<int64_t>(names_.size())
                             : CountFor(prefixes, caller->client_id);
  return listed;
}

}  // namespace qgemm
