// SPDX-License-Identifier: Apache-2.0
//
// Clients as owners of names and of what they hold: what one may see and
// change, the errors about it, and the bytes that count for it.

#ifndef QGEMM_SERVER_WEIGHTS_OWNERS_H_
#define QGEMM_SERVER_WEIGHTS_OWNERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/access/principal.h"

namespace qgemm {

// The caller on a server without an access table. It may do everything, and
// what it binds is owned by nobody.
inline constexpr const Principal* kAnybody = nullptr;

// True if the caller sees and changes the names of all owners: without a table,
// or with the right `admin`.
inline bool ManagesAll(const Principal* caller) {
  return caller == nullptr || caller->rights.Has(Right::kAdmin);
}

// The owner that the caller is: its client id, empty without a table.
absl::string_view OwnerIdOf(const Principal* caller);

// True if the caller may use and list the name.
inline bool Reads(const Principal* caller, absl::string_view name) {
  return ManagesAll(caller) || MayRead(caller, name);
}

// OK, or PERMISSION_DENIED for a name outside of the caller's prefixes, be it
// bound or not. `noun` is the kind of record: "weights".
absl::Status CheckMayBind(const Principal* caller, absl::string_view noun,
                          absl::string_view name);

// PERMISSION_DENIED about a name or an id that the caller may read.
absl::Status OwnedByAnother(const Principal& caller, absl::string_view noun,
                            absl::string_view name_or_id);

// Places of all owners together, and of them those that are taken.
struct StorePlaces {
  std::string plural;  // of what takes one: "names"
  int64_t limit = 0;
  std::string flag;  // that sets the limit
  int64_t taken = 0;
};

// OK if the caller, who has `own` places, may take one more. A client that does
// not manage all may have as many as it leaves free, so that others find some.
// Errors: RESOURCE_EXHAUSTED.
absl::Status CheckPlace(const Principal* caller, int64_t own,
                        const StorePlaces& places);

// The prefixes of the names that the caller may read and that begin with
// `within`, sorted; none is a prefix of another. Borrowed from both. A caller
// that manages all reads every name.
std::vector<absl::string_view> ReadablePrefixes(const Principal* caller,
                                                absl::string_view within = "");

// Memory that an owner holds. What has the same key is the same memory.
struct HeldItem {
  const void* key = nullptr;
  int64_t bytes = 0;
};

// Bytes that each client holds. What it holds by several names, or through
// programs too, counts once; what two clients hold counts for both. Nothing
// counts for an empty id. Thread-safe; its lock is a leaf.
class OwnerAccounts {
 private:
  struct Account;

 public:
  // Bytes of one item that count until this goes. Move-only; may outlive the
  // accounts.
  class Charge {
   public:
    Charge() = default;  // empty
    Charge(Charge&&) = default;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { Release(); }

    void Release();

   private:
    friend class OwnerAccounts;

    std::shared_ptr<Account> account_;
    int64_t bytes_ = 0;
  };

  // Counts `bytes` that are being taken. Errors: RESOURCE_EXHAUSTED if the
  // caller would hold more than its quota (Quota::weights_bytes).
  absl::StatusOr<Charge> Take(const Principal* caller, int64_t bytes);

  // Returns OK if the caller may hold the items too. Errors: as Take.
  absl::Status Check(const Principal* caller,
                     const std::vector<HeldItem>& items) const;

  // Count the items for the client once more, and once less.
  void Add(absl::string_view client_id, const std::vector<HeldItem>& items);
  void Remove(absl::string_view client_id, const std::vector<HeldItem>& items);

  int64_t BytesOf(absl::string_view client_id) const;

 private:
  struct Held {
    int64_t bytes = 0;
    int64_t count = 0;  // of the records through which it is held
  };
  struct Account {
    mutable Mutex mutex;
    int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
    std::map<const void*, Held> items ABSL_GUARDED_BY(mutex);
  };

  // Accounts stay: there are as many as clients that have held something.
  std::shared_ptr<Account> AccountOf(absl::string_view client_id);
  std::shared_ptr<Account> FindAccount(absl::string_view client_id) const;

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Account>, std::less<>> accounts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_OWNERS_H_
