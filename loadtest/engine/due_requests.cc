// SPDX-License-Identifier: Apache-2.0
//
// The order of a lane's requests: a heap of timed events beside the sequence
// of arrivals.

#include "loadtest/engine/due_requests.h"

#include <algorithm>
#include <functional>

namespace qgemm {
namespace {

// How many of `total` things, dealt out in turn, are the lane's.
int ShareOf(int total, int lane, int lanes) {
  return total / lanes + (lane < total % lanes ? 1 : 0);
}

bool IsApart(const GeneratorOptions& options, int lane) {
  return lane == options.lanes;
}

int OpenPlacesOf(const GeneratorOptions& options, int lane) {
  if (!options.arrivals.has_value() || IsApart(options, lane)) return 0;
  return std::max(1, ShareOf(options.max_in_flight, lane, options.lanes));
}

double Uniform(std::mt19937_64* random) {
  return std::uniform_real_distribution<double>(0.0, 1.0)(*random);
}

}  // namespace

int DueRequests::LanesOf(const GeneratorOptions& options) {
  return options.lanes + (options.clients_apart.empty() ? 0 : 1);
}

int DueRequests::PlacesOf(const GeneratorOptions& options, int lane) {
  if (IsApart(options, lane)) {
    return static_cast<int>(options.clients_apart.size());
  }
  return OpenPlacesOf(options, lane) +
         ShareOf(static_cast<int>(options.clients.size()), lane, options.lanes);
}

DueRequests::DueRequests(const GeneratorOptions& options,
                         const LaneShare& share)
    : disturbances_(options.disturbances),
      share_(share),
      end_(share.end),
      random_(options.seed * 1000003 + static_cast<uint64_t>(share.lane)) {
  places_.resize(OpenPlacesOf(options, share.lane));
  free_places_.resize(places_.size());
  for (int place = 0; place < places(); ++place) AddFree(place, share.start);
  if (IsApart(options, share.lane)) {
    for (const VirtualClient& client : options.clients_apart) AddClient(client);
  } else {
    if (options.arrivals.has_value()) arrivals_.emplace(*options.arrivals);
    for (size_t i = share.lane; i < options.clients.size(); i += share.lanes) {
      AddClient(options.clients[i]);
    }
  }
  // A place has a turn or a cancel pending; the rest is for stale cancels.
  events_.reserve(4 * places_.size() + 64);
  for (int place = 0; place < places(); ++place) {
    if (places_[place].client < 0) continue;
    Push({share.start, DueAction::Kind::kSend, place, 0});
  }
  if (arrivals_.has_value()) AdvanceArrivals();
  if (!IsApart(options, share.lane)) PushDisconnect(share.start);
}

void DueRequests::AddClient(const VirtualClient& client) {
  places_.emplace_back();
  places_.back().client = client.number;
}

void DueRequests::Push(const Event& event) {
  if (events_.size() == events_.capacity()) DropStaleCancels();
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

bool DueRequests::IsStale(const Event& event) const {
  const Place& place = places_[event.place];
  return event.kind == DueAction::Kind::kCancel &&
         !(place.busy && place.generation == event.generation);
}

void DueRequests::DropStaleCancels() {
  events_.erase(
      std::remove_if(events_.begin(), events_.end(),
                     [this](const Event& event) { return IsStale(event); }),
      events_.end());
  std::make_heap(events_.begin(), events_.end(), std::greater<>());
}

void DueRequests::AddFree(int place, absl::Time now) {
  places_[place].free_since = now;
  free_places_[(first_free_ + free_count_++) % free_places_.size()] = place;
}

int DueRequests::TakeFree() {
  const int place = free_places_[first_free_];
  first_free_ = (first_free_ + 1) % free_places_.size();
  --free_count_;
  return place;
}

void DueRequests::AdvanceArrivals() {
  int64_t skip = next_arrival_ < 0 ? share_.lane : share_.lanes - 1;
  std::optional<absl::Duration> offset;
  do {
    offset = arrivals_->Next();
    ++next_arrival_;
  } while (offset.has_value() && skip-- > 0);
  next_due_ =
      offset.has_value() ? share_.start + *offset : absl::InfiniteFuture();
}

void DueRequests::PushDisconnect(absl::Time after) {
  const double rate = disturbances_.disconnects_per_second / share_.lanes;
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
    Place& place = places_[event.place];
    switch (event.kind) {
      case DueAction::Kind::kDisconnect:
        if (event.time >= end_) break;
        PushDisconnect(event.time);
        return DueAction{event.kind, {}};
      case DueAction::Kind::kCancel: {
        if (IsStale(event)) break;
        DueAction action{event.kind, {}};
        action.request.place = event.place;
        return action;
      }
      case DueAction::Kind::kSend: {
        if (event.time >= end_) break;
        DueRequest request;
        request.client = place.client;
        request.sequence = place.sequence++;
        request.due = request.ready = event.time;
        return Send(event.place, request, now);
      }
    }
  }
  return std::nullopt;
}

std::optional<DueAction> DueRequests::TakeArrival(absl::Time now) {
  const absl::Time next = NextArrival();
  if (next > now || next == absl::InfiniteFuture()) return std::nullopt;
  const int place = TakeFree();
  DueRequest request;
  request.sequence = next_arrival_;
  request.due = next_due_;
  request.ready = std::max(next_due_, places_[place].free_since);
  AdvanceArrivals();
  return Send(place, request, now);
}

DueAction DueRequests::Send(int place, const DueRequest& request,
                            absl::Time now) {
  places_[place].busy = true;
  places_[place].overdue = false;
  places_[place].taken = now;
  ++in_flight_;
  DueAction action{DueAction::Kind::kSend, request};
  action.request.place = place;
  if (disturbances_.cancel_share > 0 &&
      Uniform(&random_) < disturbances_.cancel_share) {
    Push({now + disturbances_.cancel_within * Uniform(&random_),
          DueAction::Kind::kCancel, place, places_[place].generation});
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

void DueRequests::Ended(int place, absl::Time now, absl::Duration pause) {
  Place& ended = places_[place];
  ended.busy = false;
  ++ended.generation;
  --in_flight_;
  if (ended.client >= 0) {
    Push({now + pause, DueAction::Kind::kSend, place, 0});
    return;
  }
  AddFree(place, now);
}

void DueRequests::TakeOverdue(absl::Time time, std::vector<int>* places) {
  for (int place = 0; place < this->places(); ++place) {
    Place& each = places_[place];
    if (!each.busy || each.overdue || each.taken >= time) continue;
    each.overdue = true;
    places->push_back(place);
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

}  // namespace qgemm
