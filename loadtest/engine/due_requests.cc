// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/due_requests.h"

#include <algorithm>
#include <functional>

namespace qgemm::loadtest {
namespace {

// A sender's share of `total` things dealt out in turn.
int ShareOf(int total, int sender, int senders) {
  return total / senders + (sender < total % senders ? 1 : 0);
}

bool IsSeparate(const GeneratorOptions& options, int sender) {
  return sender == options.senders;
}

int OpenSlotsOf(const GeneratorOptions& options, int sender) {
  if (!options.arrivals.has_value() || IsSeparate(options, sender)) return 0;
  return std::max(1, ShareOf(options.max_in_flight, sender, options.senders));
}

double Uniform(std::mt19937_64* random) {
  return std::uniform_real_distribution<double>(0.0, 1.0)(*random);
}

}  // namespace

int DueRequests::SendersOf(const GeneratorOptions& options) {
  return options.senders + (options.separate_clients.empty() ? 0 : 1);
}

int DueRequests::SlotsOf(const GeneratorOptions& options, int sender) {
  if (IsSeparate(options, sender)) {
    return static_cast<int>(options.separate_clients.size());
  }
  return OpenSlotsOf(options, sender) +
         ShareOf(static_cast<int>(options.clients.size()), sender,
                 options.senders);
}

DueRequests::DueRequests(const GeneratorOptions& options,
                         const SenderShare& share)
    : disturbances_(options.disturbances),
      share_(share),
      end_(share.end),
      random_(options.seed * 1000003 + static_cast<uint64_t>(share.sender)) {
  slots_.resize(OpenSlotsOf(options, share.sender));
  free_slots_.resize(slots_.size());
  for (int slot = 0; slot < slots(); ++slot) AddFree(slot, share.start);
  if (IsSeparate(options, share.sender)) {
    for (int64_t client : options.separate_clients) AddClient(client);
  } else {
    if (options.arrivals.has_value()) arrivals_.emplace(*options.arrivals);
    for (size_t i = share.sender; i < options.clients.size();
         i += share.senders) {
      AddClient(options.clients[i]);
    }
  }
  // A slot has a send or a cancel pending; the rest is for stale cancels.
  events_.reserve(4 * slots_.size() + 64);
  for (int slot = 0; slot < slots(); ++slot) {
    if (slots_[slot].client < 0) continue;
    Push({share.start, DueAction::Kind::kSend, slot, 0});
  }
  if (arrivals_.has_value()) AdvanceArrivals();
  if (!IsSeparate(options, share.sender)) PushDisconnect(share.start);
}

void DueRequests::AddClient(int64_t client) {
  slots_.emplace_back();
  slots_.back().client = client;
}

void DueRequests::Push(const Event& event) {
  if (events_.size() == events_.capacity()) DropStaleCancels();
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

bool DueRequests::IsStale(const Event& event) const {
  const Slot& slot = slots_[event.slot];
  return event.kind == DueAction::Kind::kCancel &&
         !(slot.busy && slot.generation == event.generation);
}

void DueRequests::DropStaleCancels() {
  events_.erase(
      std::remove_if(events_.begin(), events_.end(),
                     [this](const Event& event) { return IsStale(event); }),
      events_.end());
  std::make_heap(events_.begin(), events_.end(), std::greater<>());
}

void DueRequests::AddFree(int slot, absl::Time now) {
  slots_[slot].free_since = now;
  free_slots_[(first_free_ + free_count_++) % free_slots_.size()] = slot;
}

int DueRequests::TakeFree() {
  const int slot = free_slots_[first_free_];
  first_free_ = (first_free_ + 1) % free_slots_.size();
  --free_count_;
  return slot;
}

void DueRequests::AdvanceArrivals() {
  int64_t skip = next_arrival_ < 0 ? share_.sender : share_.senders - 1;
  std::optional<absl::Duration> offset;
  do {
    offset = arrivals_->Next();
    ++next_arrival_;
  } while (offset.has_value() && skip-- > 0);
  next_due_ =
      offset.has_value() ? share_.start + *offset : absl::InfiniteFuture();
}

void DueRequests::PushDisconnect(absl::Time after) {
  const double rate = disturbances_.disconnects_per_second / share_.senders;
  if (rate <= 0) return;
  const double gap = std::exponential_distribution<double>(rate)(random_);
  Push({after + absl::Seconds(gap), DueAction::Kind::kDisconnect, 0, 0});
}

std::optional<DueAction> DueRequests::Take(absl::Time now) {
  is_over_ = now >= end_;
  if (std::optional<DueAction> action = TakeEvent(now)) return action;
  return TakeArrival(now);
}

std::optional<DueAction> DueRequests::TakeEvent(absl::Time now) {
  while (!events_.empty() && events_.front().time <= now) {
    const Event event = events_.front();
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    events_.pop_back();
    Slot& slot = slots_[event.slot];
    switch (event.kind) {
      case DueAction::Kind::kDisconnect:
        if (event.time >= end_) break;
        PushDisconnect(event.time);
        return DueAction{event.kind, {}};
      case DueAction::Kind::kCancel: {
        if (IsStale(event)) break;
        DueAction action{event.kind, {}};
        action.request.slot = event.slot;
        return action;
      }
      case DueAction::Kind::kSend: {
        if (event.time >= end_) break;
        DueRequest request;
        request.client = slot.client;
        request.sequence = slot.sequence++;
        request.due = request.ready = event.time;
        return Send(event.slot, request, now);
      }
    }
  }
  return std::nullopt;
}

std::optional<DueAction> DueRequests::TakeArrival(absl::Time now) {
  const absl::Time next = NextArrival();
  if (next > now || next == absl::InfiniteFuture()) return std::nullopt;
  const int slot = TakeFree();
  DueRequest request;
  request.sequence = next_arrival_;
  request.due = next_due_;
  request.ready = std::max(next_due_, slots_[slot].free_since);
  AdvanceArrivals();
  return Send(slot, request, now);
}

DueAction DueRequests::Send(int slot, const DueRequest& request,
                            absl::Time now) {
  slots_[slot].busy = true;
  slots_[slot].overdue = false;
  slots_[slot].taken = now;
  ++in_flight_;
  DueAction action{DueAction::Kind::kSend, request};
  action.request.slot = slot;
  if (disturbances_.cancel_share > 0 &&
      Uniform(&random_) < disturbances_.cancel_share) {
    Push({now + disturbances_.cancel_within * Uniform(&random_),
          DueAction::Kind::kCancel, slot, slots_[slot].generation});
  }
  return action;
}

absl::Time DueRequests::NextArrival() const {
  const bool may_be_sent =
      arrivals_.has_value() && free_count_ > 0 && next_due_ < end_ && !is_over_;
  return may_be_sent ? next_due_ : absl::InfiniteFuture();
}

absl::Time DueRequests::NextTime() const {
  const absl::Time arrival = NextArrival();
  return events_.empty() ? arrival : std::min(arrival, events_.front().time);
}

bool DueRequests::Ended(int slot, absl::Time now, absl::Duration pause) {
  Slot& ended = slots_[slot];
  ended.busy = false;
  ++ended.generation;
  --in_flight_;
  if (ended.client >= 0) {
    Push({now + pause, DueAction::Kind::kSend, slot, 0});
  } else {
    AddFree(slot, now);
  }
  return ended.overdue;
}

void DueRequests::TakeOverdue(absl::Time time, std::vector<int>* slots) {
  for (int slot = 0; slot < this->slots(); ++slot) {
    Slot& each = slots_[slot];
    if (!each.busy || each.overdue || each.taken >= time) continue;
    each.overdue = true;
    slots->push_back(slot);
  }
}

void DueRequests::EndAt(absl::Time end) { end_ = std::min(end_, end); }

bool DueRequests::exhausted(absl::Time now) const {
  if (in_flight_ > 0) return false;
  if (now >= end_) return true;
  if (arrivals_.has_value() && next_due_ < end_) return false;
  return std::none_of(events_.begin(), events_.end(), [&](const Event& event) {
    return event.kind == DueAction::Kind::kSend && event.time < end_;
  });
}

int64_t DueRequests::CountUnsent(absl::Time from) {
  int64_t unsent = 0;
  if (!arrivals_.has_value()) return 0;
  for (; next_due_ < end_; AdvanceArrivals()) {
    if (next_due_ >= from) ++unsent;
  }
  return unsent;
}

}  // namespace qgemm::loadtest
