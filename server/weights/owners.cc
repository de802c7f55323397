// SPDX-License-Identifier: Apache-2.0

#include "server/weights/owners.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/weights/name_binding.h"

namespace qgemm {
namespace {

std::string PrefixesOf(const Principal& caller) {
  if (caller.names.empty()) return "it may bind none";
  return absl::StrCat(
      "its names begin with ",
      absl::StrJoin(caller.names, " or ",
                    [](std::string* out, const std::string& prefix) {
                      absl::StrAppend(out, Quoted(prefix));
                    }));
}

absl::Status OverQuota(const Principal& caller, int64_t held_bytes,
                       int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("client ", Quoted(caller.client_id), " holds ", held_bytes,
                   " bytes of weights and programs, this would add ", bytes,
                   ", and its quota weights_bytes is ",
                   caller.quota.weights_bytes, "; unload some first"));
}

absl::Status CheckQuota(const Principal& caller, int64_t held_bytes,
                        int64_t bytes) {
  const int64_t limit = caller.quota.weights_bytes;
  if (limit <= 0 || bytes == 0 || bytes <= limit - held_bytes) {
    return absl::OkStatus();
  }
  return OverQuota(caller, held_bytes, bytes);
}

}  // namespace

absl::string_view OwnerIdOf(const Principal* caller) {
  return caller == nullptr ? absl::string_view() : caller->client_id;
}

absl::Status CheckMayBind(const Principal* caller, absl::string_view noun,
                          absl::string_view name) {
  if (ManagesAll(caller) || MayBind(caller, name)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("client ", Quoted(caller->client_id), " may not bind ",
                   Quoted(name), " to ", noun, ": ", PrefixesOf(*caller)));
}

absl::Status OwnedByAnother(const Principal& caller, absl::string_view noun,
                            absl::string_view name_or_id) {
  return absl::PermissionDeniedError(absl::StrCat(
      "client ", Quoted(caller.client_id), " may not change ", noun, " ",
      Quoted(name_or_id), ", which another client owns"));
}

absl::Status CheckPlace(const Principal* caller, int64_t own,
                        const StorePlaces& places) {
  const int64_t left = places.limit - places.taken;
  if (left <= 0) return TooMany(places.plural, places.limit, places.flag);
  if (ManagesAll(caller) || own < left) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "client ", Quoted(caller->client_id), " has ", own, " ", places.plural,
      ", its share: of ", places.limit, " (", places.flag,
      ") a client may have as many as it leaves free; unload some"));
}

std::vector<absl::string_view> ReadablePrefixes(const Principal* caller,
                                                absl::string_view within) {
  if (ManagesAll(caller)) return {within};
  std::vector<absl::string_view> all;
  for (const auto* const prefixes : {&caller->names, &caller->read}) {
    for (const absl::string_view prefix : *prefixes) {
      if (absl::StartsWith(prefix, within)) {
        all.push_back(prefix);
      } else if (absl::StartsWith(within, prefix)) {
        all.push_back(within);
      }
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<absl::string_view> prefixes;
  for (const absl::string_view prefix : all) {
    // Sorted, whatever extends a prefix stands right behind it.
    if (prefixes.empty() || !absl::StartsWith(prefix, prefixes.back())) {
      prefixes.push_back(prefix);
    }
  }
  return prefixes;
}

auto OwnerAccounts::Charge::operator=(Charge&& other) noexcept -> Charge& {
  if (this != &other) {
    Release();
    account_ = std::move(other.account_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void OwnerAccounts::Charge::Release() {
  const std::shared_ptr<Account> account = std::move(account_);
  if (account == nullptr) return;
  MutexLock lock(&account->mutex);
  account->bytes -= std::exchange(bytes_, 0);
}

absl::StatusOr<OwnerAccounts::Charge> OwnerAccounts::Take(
    const Principal* caller, int64_t bytes) {
  Charge charge;
  if (caller == nullptr) return charge;
  std::shared_ptr<Account> account = AccountOf(caller->client_id);
  MutexLock lock(&account->mutex);
  const absl::Status room = CheckQuota(*caller, account->bytes, bytes);
  if (!room.ok()) return room;
  account->bytes += bytes;
  charge.bytes_ = bytes;
  charge.account_ = account;
  return charge;
}

absl::Status OwnerAccounts::Check(const Principal* caller,
                                  const std::vector<HeldItem>& items) const {
  if (caller == nullptr) return absl::OkStatus();
  int64_t bytes = 0;
  for (const HeldItem& item : items) bytes += item.bytes;
  const std::shared_ptr<Account> account = FindAccount(caller->client_id);
  if (account == nullptr) return CheckQuota(*caller, 0, bytes);
  MutexLock lock(&account->mutex);
  for (const HeldItem& item : items) {
    if (account->items.count(item.key) != 0) bytes -= item.bytes;
  }
  return CheckQuota(*caller, account->bytes, bytes);
}

void OwnerAccounts::Add(absl::string_view client_id,
                        const std::vector<HeldItem>& items) {
  if (client_id.empty()) return;
  const std::shared_ptr<Account> account = AccountOf(client_id);
  MutexLock lock(&account->mutex);
  for (const HeldItem& item : items) {
    Held& held = account->items[item.key];
    if (held.count++ > 0) continue;
    held.bytes = item.bytes;
    account->bytes += item.bytes;
  }
}

void OwnerAccounts::Remove(absl::string_view client_id,
                           const std::vector<HeldItem>& items) {
  const std::shared_ptr<Account> account = FindAccount(client_id);
  if (account == nullptr) return;
  MutexLock lock(&account->mutex);
  for (const HeldItem& item : items) {
    const auto held = account->items.find(item.key);
    if (held == account->items.end() || --held->second.count > 0) continue;
    account->bytes -= held->second.bytes;
    account->items.erase(held);
  }
}

int64_t OwnerAccounts::BytesOf(absl::string_view client_id) const {
  const std::shared_ptr<Account> account = FindAccount(client_id);
  if (account == nullptr) return 0;
  MutexLock lock(&account->mutex);
  return account->bytes;
}

auto OwnerAccounts::AccountOf(absl::string_view client_id)
    -> std::shared_ptr<Account> {
  MutexLock lock(&mutex_);
  const auto found = accounts_.find(client_id);
  if (found != accounts_.end()) return found->second;
  auto account = std::make_shared<Account>();
  accounts_.emplace(client_id, account);
  return account;
}

auto OwnerAccounts::FindAccount(absl::string_view client_id) const
    -> std::shared_ptr<Account> {
  MutexLock lock(&mutex_);
  const auto found = accounts_.find(client_id);
  return found == accounts_.end() ? nullptr : found->second;
}

}  // namespace qgemm
