// SPDX-License-Identifier: Apache-2.0
//
// Records of a NamedStore as a caller reads them, with their names, in parts of
// the list of all; and the bounds, words and accounts that a store is made of.

#ifndef QGEMM_SERVER_WEIGHTS_NAMED_RECORDS_H_
#define QGEMM_SERVER_WEIGHTS_NAMED_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "server/access/principal.h"
#include "server/storage/names_log.h"
#include "server/weights/owners.h"

namespace qgemm {

// A record and the names bound to it at one moment that the caller may read.
template <typename Record>
struct NamedRecord {
  std::shared_ptr<const Record> record;
  std::vector<std::string> names;  // sorted; the first kMaxListedNames
  int64_t name_count = 0;          // of all
};

// A part of all records that the caller may read, in the order of the list.
template <typename Record>
struct ListPage {
  struct Entry {
    NamedRecord<Record> named;
    std::string place;  // in the list, as List takes it
  };
  std::vector<Entry> entries;
  bool is_last = true;
  // The place where the part that follows begins: the last entry, or further.
  std::string next;
};

// Bounds and words of a store, and its accounts. Both functions run under the
// store's lock: they must be brief and must not use the store.
struct NamedStoreOptions {
  std::string noun;    // of a record, in errors: "weights"
  std::string plural;  // of what is counted: "layers"
  int64_t max_records = 0;
  std::string records_flag;  // "--max_layers"
  int64_t max_names = 0;
  std::string names_flag;
  // Takes the budget of one more name, for that caller.
  std::function<absl::StatusOr<ByteReservation>(const Principal* caller)>
      reserve_name;
  // Keeps changes where they outlive the process, before they are made; its
  // error refuses them. Takes its time: it runs under the lock of changes
  // alone, which no reader takes. Null: they are kept nowhere.
  std::function<absl::Status(std::vector<NameChange> changes)> journal;
  // Receives the numbers of records and names after each change. May be null.
  std::function<void(int64_t records, int64_t names)> on_change;
  // Counts what clients hold, within their quotas. Must outlive the store.
  OwnerAccounts* accounts = nullptr;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_NAMED_RECORDS_H_
