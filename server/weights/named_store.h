// SPDX-License-Identifier: Apache-2.0
//
// Records that the server holds (weights, programs), by id and by name, their
// owners and their list. What a record is, its memory and its metrics are its
// store's. named_store_changes.h and named_store_impl.h implement the template.

#ifndef QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_
#define QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/access/principal.h"
#include "server/storage/names_log.h"
#include "server/weights/name_binding.h"
#include "server/weights/named_records.h"
#include "server/weights/owners.h"
#include "server/weights/record_names.h"

namespace qgemm {

// Thread-safe. A Record is immutable and has an `id` of 64 lower-case
// hexadecimal digits; ItemsOf(record) returns the memory that it holds as
// HeldItems. Binding and dropping names is atomic: a reader sees the old record
// or the new one. References that are dropped go after the lock: the last one
// frees memory.
//
// A name is owned by the client that bound it first. A record is held by the
// owners of its names, and by each client that loaded it without a name and has
// bound none since, until it unloads it by id; it goes with its last holder.
//
// Each function takes the caller, which may be kAnybody. To one that does not
// manage all, what it may not read is as if it were not there: names outside of
// its prefixes, and records of which it may read no name, unless it holds them
// without one. What it may read and not change is PERMISSION_DENIED.
template <typename Record>
class NamedStore {
 public:
  using Pointer = std::shared_ptr<const Record>;

  explicit NamedStore(NamedStoreOptions options)
      : options_(std::move(options)) {}

  // Returns OK if Commit would bind now. `id` is empty if it is not known yet.
  // Errors: Commit's, but for the budget and the quota.
  absl::Status CheckCommit(const Principal* caller, const NameBinding& binding,
                           absl::string_view id) const {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckBinding(caller, binding, id));
    return CheckCounts(caller, binding, id);
  }

  // Makes the record visible, binds the name, and returns it. If the id is held
  // already, by whomever, that record stays and is returned. A name that is
  // bound to this id already stays its owner's, whoever binds it. On an error
  // nothing changes. Errors: ALREADY_EXISTS (create_only), FAILED_PRECONDITION
  // (if_match), RESOURCE_EXHAUSTED (records, names, the caller's share of
  // either, budget, the caller's quota), PERMISSION_DENIED (a name outside of
  // the caller's prefixes, or another's).
  absl::StatusOr<Pointer> Commit(const Principal* caller, const Pointer& record,
                                 const NameBinding& binding);

  // Binds the name to the record of `id` and returns it; null if the caller
  // sees no such record. Errors: Commit's.
  absl::StatusOr<Pointer> BindIfHeld(const Principal* caller,
                                     absl::string_view id,
                                     const NameBinding& binding);

  // Look a record up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<Pointer> Find(const Principal* caller,
                               absl::string_view name_or_id) const {
    MutexLock lock(&mutex_);
    const Entry* const entry = FindEntry(caller, name_or_id);
    if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
    return entry->record;
  }
  // With its names that come after `names_after`, in the order of bytes.
  absl::StatusOr<NamedRecord<Record>> Get(const Principal* caller,
                                          absl::string_view name_or_id,
                                          absl::string_view names_after) const {
    MutexLock lock(&mutex_);
    const Entry* const entry = FindEntry(caller, name_or_id);
    if (entry == nullptr) return UnknownRecord(options_.noun, name_or_id);
    return Describe(caller, *entry, names_after);
  }

  // Returns up to `max_records` records by first name that the caller may read
  // and that begins with `prefix`, or if that is empty by any, and then by id,
  // those without a name last; from the one behind the place `after`
  // on (empty: the first). There may be none on a page that is not the last. A
  // record whose first name changes moves in the list; all others are in
  // exactly one of the pages that follow on one another. No place has a name
  // that the caller may not read.
  ListPage<Record> List(const Principal* caller, absl::string_view after,
                        int64_t max_records,
                        absl::string_view prefix = "") const {
    MutexLock lock(&mutex_);
    return ManagesAll(caller) && prefix.empty()
               ? ListAll(after, max_records)
               : ListFor(caller, {after, prefix, max_records});
  }

  // A record that the caller may unload as it names it.
  struct Unloadable {
    Pointer record;
    bool is_shared = false;  // others hold it too, whom the caller cannot drop
  };
  // Finds a record to unload, and changes nothing. Errors: Unload's.
  absl::StatusOr<Unloadable> FindToUnload(const Principal* caller,
                                          absl::string_view name_or_id,
                                          absl::string_view if_match) const;

  // Drops a name, which the caller must own. For an id, drops all names of the
  // record that the caller owns, and its hold without one; whoever manages all
  // drops those of all owners. Returns true if the caller finds the record no
  // more. Errors: NOT_FOUND; PERMISSION_DENIED; FAILED_PRECONDITION if the
  // record has another id than `if_match`, unless that is empty;
  // INVALID_ARGUMENT if that is no id.
  absl::StatusOr<bool> Unload(const Principal* caller,
                              absl::string_view name_or_id,
                              absl::string_view if_match);

  // Drops up to `max_names` names that begin with the prefix and that the
  // caller owns; all owners' for one that manages all. Errors: INVALID_ARGUMENT
  // (an empty prefix), PERMISSION_DENIED (one that is not within the caller's).
  absl::StatusOr<DroppedNames> UnloadPrefix(const Principal* caller,
                                            absl::string_view prefix,
                                            int64_t max_names);

  // True if a client of that id holds the record.
  bool IsHeldBy(absl::string_view owner_id, absl::string_view id) const;

  // Binds a name that the journal has, or holds the record without one for an
  // empty name, for the owner of that id; nothing is checked. For the start.
  // Errors: those of reserve_name.
  absl::Status Restore(const Pointer& record, const std::string& name,
                       absl::string_view owner_id);

  // Puts `record` in the place of `held`, which has the same id, unless that
  // place has another by now; returns true if it did.
  bool Replace(const Pointer& held, const Pointer& record);

  // All records, in the order of their ids.
  std::vector<Pointer> records() const {
    MutexLock lock(&mutex_);
    std::vector<Pointer> records;
    records.reserve(by_id_.size());
    for (const auto& [unused, entry] : by_id_) {
      records.push_back(entry->record);
    }
    return records;
  }

  // Number of records; of those that the caller holds, unless it manages all.
  int64_t record_count(const Principal* caller) const {
    MutexLock lock(&mutex_);
    if (ManagesAll(caller)) return static_cast<int64_t>(by_id_.size());
    const Owner* const owner = FindOwner(caller);
    return owner == nullptr ? 0 : owner->records;
  }

 private:
  struct Entry;

  // A key is an entry's place in the list of all.
  using ListIndex = std::map<std::string, Entry*, std::less<>>;

  struct Entry {
    // `id` is borrowed: a key of by_id_.
    Entry(Pointer held, absl::string_view id)
        : record(std::move(held)), names(id) {}

    Pointer record;
    RecordNames names;  // keys of by_name_
    typename ListIndex::iterator listed;
  };

  struct Name {
    Entry* entry = nullptr;
    Owner* owner = nullptr;
    ByteReservation reservation;
  };

  // The place in the list of a record with these names. Those without any come
  // last, as '1' comes after '0'.
  static std::string PlaceOf(absl::string_view name) {
    return absl::StrCat("0", name);
  }
  static std::string PlaceOfUnnamed(absl::string_view id) {
    return absl::StrCat("1", id);
  }
  static std::string PlaceOf(const Entry& entry) {
    return entry.names.all().empty() ? PlaceOfUnnamed(entry.record->id)
                                     : PlaceOf(*entry.names.all().begin());
  }

  // A part of a list that is being filled. It looks at kNamesALock names at
  // most, which may all be further names of a few records.
  struct Part {
    // False, and the part ends, if it has no room for a look at that place.
    bool Look(std::string place);
    void Add(NamedRecord<Record> named) {
      page.entries.push_back({std::move(named), page.next});
    }

    ListPage<Record> page;
    int64_t max_records = 0;
    int looks = 0;
  };

  static NamedRecord<Record> Describe(const Principal* caller,
                                      const Entry& entry,
                                      absl::string_view after);

  // Null for a record that the caller does not see.
  Entry* FindEntry(const Principal* caller, absl::string_view name_or_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindId(const Principal* caller, absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status CheckBinding(const Principal* caller, const NameBinding& binding,
                            absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StorePlaces NamePlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {"names", options_.max_names, options_.names_flag,
            static_cast<int64_t>(by_name_.size())};
  }
  StorePlaces RecordPlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {options_.plural, options_.max_records, options_.records_flag,
            static_cast<int64_t>(by_id_.size())};
  }
  // Errors: too many records or names after the binding of `id`.
  absl::Status CheckCounts(const Principal* caller, const NameBinding& binding,
                           absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: the caller would hold more than its quota.
  absl::Status CheckQuota(const Principal* caller, const NameBinding& binding,
                          const Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry that the caller may drop as it names it. Errors: Unload's.
  absl::StatusOr<Entry*> EntryToUnload(const Principal* caller,
                                       absl::string_view name_or_id,
                                       absl::string_view if_match) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns OK if the caller may drop what it named. Errors: PERMISSION_DENIED.
  absl::Status CheckUnload(const Principal* caller,
                           absl::string_view name_or_id,
                           const Entry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A binding for which all is checked and taken, and that the journal has.
  // Borrows its parts.
  struct Decided {
    const Pointer* record;
    const std::string* name;
    ByteReservation reservation;  // the name's
    Owner* owner = nullptr;
  };

  // Errors: Commit's.
  absl::StatusOr<Decided> Decide(const Principal* caller, const Pointer& record,
                                 const NameBinding& binding)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  // Binds the name to the record. Sets `replaced` to the record that goes by
  // it, if one does.
  Pointer BindDecided(Decided decided, Pointer* replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Changes that the journal is to have: those of a binding, and of an unload.
  std::vector<NameChange> ChangesOf(const std::string& id,
                                    const std::string& name,
                                    const Owner& owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<NameChange> ChangesOfUnload(const Principal* caller,
                                          absl::string_view name_or_id,
                                          const Entry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Journal(std::vector<NameChange> changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_) {
    return options_.journal == nullptr ? absl::OkStatus()
                                       : options_.journal(std::move(changes));
  }
  // Takes the budget of a name that is not bound yet; an empty reservation for
  // one that is.
  absl::StatusOr<ByteReservation> ReserveName(const Principal* caller,
                                              const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (name.empty() || by_name_.count(name) != 0) return ByteReservation();
    return options_.reserve_name(caller);
  }
  // Null for a caller that has bound nothing yet.
  const Owner* FindOwner(const Principal* caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = owners_.find(OwnerIdOf(caller));
    return found == owners_.end() ? nullptr : &found->second;
  }
  Owner* OwnerOf(absl::string_view id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* Add(const Pointer& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Binds `name`, of `owner` unless it has one; returns the record that lost
  // its last holder by it.
  Pointer Bind(const std::string& name, ByteReservation reservation,
               Owner* owner, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Return the record if it went with its last holder, else null.
  Pointer RemoveName(absl::string_view name, Owner* owner, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Pointer RemoveHolder(Owner* owner, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Pointer RemoveAllHolders(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Pointer DropUnheld(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Account for a record that an owner holds, or does no more.
  void BeginHold(const Owner& owner, const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHold(const Owner& owner, const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Moves the entry to its place in the list.
  void Relist(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ListPage<Record> ListAll(absl::string_view after, int64_t max_records) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct PartOfList {
    absl::string_view after;
    absl::string_view prefix;
    int64_t max_records = 0;
  };
  ListPage<Record> ListFor(const Principal* caller, PartOfList wanted) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Add records by their first names with one of the prefixes, and those that
  // the caller holds and has no such names of; false once the part is full.
  bool AddNamed(const Principal* caller,
                absl::Span<const absl::string_view> prefixes,
                absl::string_view last_name, Part* part) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AddUnnamed(const Principal& caller,
                  absl::Span<const absl::string_view> prefixes,
                  absl::string_view last_id, Part* part) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.on_change == nullptr) return;
    options_.on_change(static_cast<int64_t>(by_id_.size()),
                       static_cast<int64_t>(by_name_.size()));
  }

  const NamedStoreOptions options_;
  // Held, before the other, by whoever changes what is held by whom, from the
  // checks to the change.
  Mutex change_mutex_;
  mutable Mutex mutex_;
  // Owners stay: there are as many as clients that have bound something.
  std::map<std::string, Owner, std::less<>> owners_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> by_id_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Name, std::less<>> by_name_ ABSL_GUARDED_BY(mutex_);
  ListIndex list_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#include "server/weights/named_store_changes.h"  // IWYU pragma: export
#include "server/weights/named_store_impl.h"     // IWYU pragma: export

#endif  // QGEMM_SERVER_WEIGHTS_NAMED_STORE_H_
