// SPDX-License-Identifier: Apache-2.0
//
// An entry stays in the table for as long as an upload has it or waits in it.

#include "server/weights/upload_table.h"

#include <variant>

#include "base/log.h"
#include "base/status_macros.h"
#include "server/weights/owners.h"

namespace qgemm {

UploadTable::Claim& UploadTable::Claim::operator=(Claim&& other) noexcept {
  Release();
  table_ = std::exchange(other.table_, nullptr);
  entry_ = std::move(other.entry_);
  session_ = std::move(other.session_);
  caller_ = std::move(other.caller_);
  return *this;
}

void UploadTable::Claim::SetReceived(int64_t bytes) {
  entry_->received.store(bytes, std::memory_order_relaxed);
}

void UploadTable::Claim::Keep(std::unique_ptr<UploadSession> session,
                              std::shared_ptr<const Principal> caller) {
  if (session == nullptr || !session->can_continue()) {
    session.reset();
    return Release();
  }
  std::exchange(table_, nullptr)
      ->Wait(entry_, std::move(session), std::move(caller));
}

void UploadTable::Claim::Release() {
  session_.reset();
  if (table_ != nullptr) std::exchange(table_, nullptr)->Free(entry_);
}

UploadTable::UploadTable(const UploadParts& parts,
                         const UploadTableOptions& options)
    : parts_(parts), options_(options), start_(parts.clock->Now()) {
  parts_.store->SetGiveUp(
      [this](const std::string* owner) { return GiveUp(owner); });
}

UploadTable::~UploadTable() {
  parts_.store->SetGiveUp(nullptr);
  MutexLock lock(&mutex_);
  for (const auto& [unused, entry] : entries_) {
    if (entry->session != nullptr) entry->session->Leave();
  }
}

std::optional<UploadTable::Claim> UploadTable::Acquire(const UploadKey& key,
                                                       Claimant claimant,
                                                       Urgency urgency) {
  std::function<void()> give_way;
  {
    MutexLock lock(&mutex_);
    std::shared_ptr<Entry>& entry = entries_[KeyOf(key)];
    const bool is_new = entry == nullptr;
    if (is_new) {
      entry = std::make_shared<Entry>();
      entry->key = KeyOf(key);
    }
    if (is_new || !entry->is_claimed) {
      entry->is_claimed = true;
      entry->give_way = std::move(claimant.give_way);
      Claim claim;
      claim.table_ = this;
      claim.entry_ = entry;
      claim.session_ = std::move(entry->session);
      claim.caller_ = std::move(entry->caller);
      CountWaiting();
      return claim;
    }
    if (claimant.on_turn != nullptr) {
      entry->on_turn.push_back(std::move(claimant.on_turn));
    }
    if (urgency == Urgency::kTakesOver) give_way = entry->give_way;
  }
  if (give_way != nullptr) give_way();
  return std::nullopt;
}

absl::StatusOr<int64_t> UploadTable::Received(
    const std::shared_ptr<const Principal>& caller, const Sha256Digest& id,
    const WeightsLimits& limits) {
  if (!keeps_any()) return 0;
  const UploadKey key = {std::string(OwnerIdOf(caller.get())), id};
  {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(KeyOf(key));
    if (found != entries_.end()) {
      return found->second->received.load(std::memory_order_relaxed);
    }
  }
  if (parts_.store->state() == nullptr ||
      parts_.store->Find(caller.get(), ToHex(id)).ok()) {
    return 0;
  }
  const auto spec = parts_.store->state()->FindPart(key);
  if (!spec.ok()) return 0;
  std::optional<Claim> claim = Acquire(key, {}, Urgency::kWaits);
  if (!claim.has_value()) return 0;  // begun this moment
  UploadHeader header;
  header.spec = *spec;
  header.expected_id = id;
  header.may_continue = true;
  ASSIGN_OR_RETURN(auto started,
                   UploadSession::Start(caller.get(), header, limits,
                                        parts_.backend, parts_.store));
  auto* const session = std::get_if<std::unique_ptr<UploadSession>>(&started);
  if (session == nullptr) return 0;  // the layer is held
  const int64_t received = (*session)->received_bytes();
  claim->SetReceived(received);
  claim->Keep(std::move(*session), caller);
  return received;
}

void UploadTable::Free(const std::shared_ptr<Entry>& entry) {
  std::vector<std::function<void()>> on_turn;
  {
    MutexLock lock(&mutex_);
    on_turn = std::move(entry->on_turn);
    entries_.erase(entry->key);
  }
  for (const auto& next : on_turn) next();
}

void UploadTable::Wait(const std::shared_ptr<Entry>& entry,
                       std::unique_ptr<UploadSession> session,
                       std::shared_ptr<const Principal> caller) {
  std::vector<std::function<void()>> on_turn;
  std::shared_ptr<Entry> surplus;
  {
    MutexLock lock(&mutex_);
    entry->received = session->received_bytes();
    entry->session = std::move(session);
    entry->caller = std::move(caller);
    entry->until = parts_.clock->Now() + options_.linger;
    entry->give_way = nullptr;
    entry->is_claimed = false;
    on_turn = std::exchange(entry->on_turn, {});
    const std::string* const crowding = Crowding();
    if (crowding != nullptr) surplus = Oldest(crowding);
    if (surplus != nullptr) surplus->is_claimed = true;
    CountWaiting();
  }
  if (surplus != nullptr) Drop(surplus);
  for (const auto& next : on_turn) next();
  parts_.store->RingRoom();  // it may be given up for others
}

void UploadTable::Drop(const std::shared_ptr<Entry>& entry) {
  EVENT(INFO, "upload_given_up")
      .With("id", ToHex(entry->key.second))
      .With("client", entry->key.first)
      .With("bytes", entry->received.load(std::memory_order_relaxed));
  entry->session.reset();
  entry->caller.reset();
  Free(entry);
}

bool UploadTable::GiveUp(const std::string* owner) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(&mutex_);
    entry = Oldest(owner);
    if (entry == nullptr) return false;
    entry->is_claimed = true;
    CountWaiting();
  }
  Drop(entry);
  return true;
}

void UploadTable::Sweep(absl::Time now) {
  bool drops_parts = false;
  std::vector<std::shared_ptr<Entry>> late;
  {
    MutexLock lock(&mutex_);
    for (const auto& [unused, entry] : entries_) {
      if (entry->is_claimed || entry->until > now) continue;
      entry->is_claimed = true;
      late.push_back(entry);
    }
    if (!late.empty()) CountWaiting();
    drops_parts = !parts_dropped_ && now >= start_ + options_.linger;
    parts_dropped_ = parts_dropped_ || drops_parts;
  }
  for (const auto& entry : late) Drop(entry);
  if (drops_parts && parts_.store->state() != nullptr) {
    parts_.store->state()->DropParts();
  }
}

auto UploadTable::Oldest(const std::string* owner) const
    -> std::shared_ptr<Entry> {
  std::shared_ptr<Entry> oldest;
  for (const auto& [key, entry] : entries_) {
    if (entry->is_claimed || (owner != nullptr && key.first != *owner)) {
      continue;
    }
    if (oldest == nullptr || entry->until < oldest->until) oldest = entry;
  }
  return oldest;
}

const std::string* UploadTable::Crowding() const {
  size_t waiting = 0;
  std::map<std::string, size_t> by_client;
  const std::string* most = nullptr;
  for (const auto& [key, entry] : entries_) {
    if (entry->is_claimed) continue;
    ++waiting;
    const size_t count = ++by_client[key.first];
    if (most == nullptr || count > by_client[*most]) most = &key.first;
  }
  return waiting > options_.max_waiting ? most : nullptr;
}

void UploadTable::CountWaiting() {
  if (parts_.metrics == nullptr) return;
  int64_t waiting = 0;
  for (const auto& [unused, entry] : entries_) {
    waiting += entry->is_claimed ? 0 : 1;
  }
  parts_.metrics->SetUploadsWaiting(waiting);
}

}  // namespace qgemm
