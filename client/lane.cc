// SPDX-License-Identifier: Apache-2.0

#include "client/lane.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "client/device_operands.h"

namespace qgemm {
namespace {

// The bytes of m rows; nullopt if they are more than a lane can have.
std::optional<int64_t> RowBytes(uint64_t row, int64_t unit_bytes, int64_t m) {
  if (row > INT64_MAX) return std::nullopt;
  const auto row_bytes = CheckedMul(static_cast<int64_t>(row), unit_bytes);
  return row_bytes.has_value() ? CheckedMul(*row_bytes, m) : std::nullopt;
}

template <typename Byte>
int64_t TotalOf(absl::Span<const absl::Span<Byte>> parts) {
  int64_t total = 0;
  for (const auto& part : parts) total += part.size();
  return total;
}

// All bytes of the parts, if they lie one behind the other.
template <typename Byte>
std::optional<absl::Span<const uint8_t>> Joined(
    absl::Span<const absl::Span<Byte>> parts) {
  if (parts.empty()) return std::nullopt;
  const uint8_t* end = parts[0].data();
  for (const auto& part : parts) {
    if (part.data() != end) return std::nullopt;
    end += part.size();
  }
  return absl::MakeConstSpan(parts[0].data(), TotalOf(parts));
}

LaneOutcome NotCarried(absl::Status reason) {
  LaneOutcome outcome;
  outcome.status = std::move(reason);
  return outcome;
}

LaneOutcome NoRoom(uint64_t bytes) {
  return NotCarried(absl::ResourceExhaustedError(absl::StrCat(
      "the lane has no room for an operand of ", bytes,
      " bytes; ClientLaneOptions::operand_bytes says how many it has")));
}

LaneOutcome Answered(absl::Status status) {
  LaneOutcome outcome;
  outcome.end = LaneOutcome::End::kAnswered;
  outcome.status = std::move(status);
  return outcome;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClientLane>> ClientLane::Open(
    const std::string& path, const std::string& token,
    const ClientLaneOptions& options, absl::Time deadline) {
  LaneSocket::Wanted wanted;
  wanted.operand_bytes = options.operand_bytes;
  wanted.slots = static_cast<uint32_t>(options.calls);
  wanted.token = token;
  wanted.device_operands = options.device_operands;
  ASSIGN_OR_RETURN(LaneSocket::Granted granted,
                   LaneSocket::Connect(path, wanted, deadline));
  ASSIGN_OR_RETURN(std::shared_ptr<LaneSegment> segment,
                   LaneSegment::Map(granted.accept, granted.segment));
  return absl::WrapUnique(
      new ClientLane(std::move(granted), std::move(segment), options));
}

ClientLane::ClientLane(LaneSocket::Granted granted,
                       std::shared_ptr<LaneSegment> segment,
                       const ClientLaneOptions& options)
    : socket_(std::move(granted.socket)),
      segment_(std::move(segment)),
      devices_(options.device_operands),
      regions_(std::move(granted.regions)),
      ring_(segment_, std::move(granted.doorbell), options.spin),
      targets_(socket_.get()),
      reaper_(segment_, &ring_, std::move(granted.wake), options.spin) {}

LaneOutcome ClientLane::Call(const LaneWork& work) {
  FreeAbandoned();
  if (ring_.has_ended()) return Lost();
  auto handle = targets_.Find(work.target, work.deadline);
  if (!handle.ok()) {
    if (ring_.has_ended()) return Lost();
    if (absl::IsDeadlineExceeded(handle.status())) {
      return Answered(handle.status());
    }
    return NotCarried(handle.status());  // a call is told why in full
  }
  InFlight flight;
  flight.handle = *std::move(handle);
  lane::RequestEntry entry = work.entry;
  auto end = Prepare(work, &entry, &flight);
  if (end.has_value()) return *std::move(end);
  ring_.Publish(flight.slot, entry);
  LaneRing::WaitEnd wait =
      ring_.Wait(flight.slot, work.deadline, &flight.handle->answers());
  if (wait == LaneRing::WaitEnd::kDeadline && flight.c_range.is_none()) {
    wait = ring_.WaitAsleep(flight.slot, absl::InfiniteFuture());
  }
  return OutcomeOf(wait, std::move(flight));
}

std::variant<LaneSlot, LaneOutcome> ClientLane::Start(const LaneWork& work,
                                                      Done* done) {
  FreeAbandoned();
  if (ring_.has_ended()) return Lost();
  InFlight flight;
  flight.handle = targets_.FindOpen(work.target);
  if (flight.handle == nullptr) {  // another call has just found it changed
    return NotCarried(absl::UnavailableError(
        absl::StrCat(work.target.name, ": the lane must open it anew")));
  }
  lane::RequestEntry entry = work.entry;
  auto refusal = Prepare(work, &entry, &flight);
  if (refusal.has_value()) return *std::move(refusal);
  const LaneSlot slot = flight.slot;
  if (!reaper_.Reserve()) {
    ring_.ReturnSlot(slot);
    return Lost();
  }
  LaneReaper::Awaited call;
  call.slot = slot;
  call.deadline = work.deadline;
  call.can_be_left = !flight.c_range.is_none();
  call.estimate = &flight.handle->answers();
  call.done = [this, flight = std::move(flight),
               done = std::move(*done)](LaneRing::WaitEnd end) mutable {
    done(OutcomeOf(end, std::move(flight)));
  };
  reaper_.Await(std::move(call));
  ring_.Publish(slot, entry);
  return slot;
}

std::optional<LaneOutcome> ClientLane::Prepare(const LaneWork& work,
                                               lane::RequestEntry* entry,
                                               InFlight* flight) {
  const int64_t m = entry->m;
  const auto a_bytes = RowBytes(flight->handle->a_row(), work.a_unit_bytes, m);
  const auto c_bytes = RowBytes(flight->handle->c_row(), work.c_unit_bytes, m);
  if (a_bytes != TotalOf(work.inputs) || !c_bytes.has_value() ||
      (!work.outputs.empty() && c_bytes != TotalOf(work.outputs))) {
    targets_.Forget(flight->handle);
    return NotCarried(absl::InvalidArgumentError(absl::StrCat(
        work.target.name, ": the operands have ", TotalOf(work.inputs),
        " bytes, the memory for results ", TotalOf(work.outputs), "; m = ", m,
        " rows have ", a_bytes.value_or(-1), " and ", c_bytes.value_or(-1))));
  }
  if (work.deadline < absl::InfiniteFuture()) {
    const absl::Duration left = work.deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return Answered(absl::DeadlineExceededError(
          "the call's deadline passed before it was sent"));
    }
    entry->timeout_ns = std::max<int64_t>(1, absl::ToInt64Nanoseconds(left));
  }
  entry->handle = flight->handle->number();
  entry->a_bytes = *a_bytes;
  entry->c_bytes = *c_bytes;
  if (auto end = PlaceResult(work, entry, flight)) return end;
  if (auto end = PlaceInputs(work, entry, flight)) return end;
  const auto slot = ring_.TakeSlot();
  if (!slot.has_value()) {
    return NotCarried(absl::ResourceExhaustedError(
        "all ClientLaneOptions::calls of the lane are in flight"));
  }
  flight->slot = *slot;
  return std::nullopt;
}

std::optional<ClientLane::Place> ClientLane::PlaceOf(
    absl::Span<const uint8_t> bytes) const {
  if (const auto offset = segment_->OffsetOf(bytes)) return Place{*offset, 0};
  const DeviceOperands* const device = FindDevice(devices_, bytes);
  if (device == nullptr) return std::nullopt;
  const uint64_t offset = bytes.data() - device->data;
  if (bytes.size() > device->bytes - offset ||
      offset % lane::kOperandAlignment != 0) {
    return std::nullopt;
  }
  return Place{offset, regions_[device - devices_.data()]};
}

std::optional<LaneOutcome> ClientLane::PlaceResult(const LaneWork& work,
                                                   lane::RequestEntry* entry,
                                                   InFlight* flight) {
  const auto lent = Joined(work.outputs);
  const auto place = lent ? PlaceOf(*lent) : std::nullopt;
  if (place.has_value()) {
    entry->c_offset = place->offset;
    entry->c_region = place->region;
    flight->placed_c = absl::MakeSpan(work.outputs[0].data(), entry->c_bytes);
    return std::nullopt;
  }
  if (AnyOnDevice(devices_, work.outputs)) return LaneOutcome();
  flight->c_range = segment_->Allocate(entry->c_bytes);
  if (flight->c_range.is_none()) return NoRoom(entry->c_bytes);
  entry->c_offset = flight->c_range.offset();
  return std::nullopt;
}

std::optional<LaneOutcome> ClientLane::PlaceInputs(const LaneWork& work,
                                                   lane::RequestEntry* entry,
                                                   InFlight* flight) {
  const auto lent = Joined(work.inputs);
  const auto place = lent && work.lends_inputs ? PlaceOf(*lent) : std::nullopt;
  if (place.has_value()) {
    entry->a_offset = place->offset;
    entry->a_region = place->region;
    return std::nullopt;
  }
  if (AnyOnDevice(devices_, work.inputs)) return LaneOutcome();
  flight->a_range = segment_->Allocate(entry->a_bytes);
  if (flight->a_range.is_none()) return NoRoom(entry->a_bytes);
  entry->a_offset = flight->a_range.offset();
  uint8_t* to = flight->a_range.bytes().data();
  for (const auto& input : work.inputs) {
    if (!input.empty()) std::memcpy(to, input.data(), input.size());
    to += input.size();
  }
  return std::nullopt;
}

LaneOutcome ClientLane::OutcomeOf(LaneRing::WaitEnd end, InFlight flight) {
  switch (end) {
    case LaneRing::WaitEnd::kDone:
      return TakeAnswer(std::move(flight));
    case LaneRing::WaitEnd::kDeadline:
      Abandon(std::move(flight));
      return Answered(absl::DeadlineExceededError(
          "the call's deadline passed before its answer came"));
    case LaneRing::WaitEnd::kCancelled:
      Abandon(std::move(flight));
      return Answered(absl::CancelledError("the caller cancelled the call"));
    case LaneRing::WaitEnd::kClosed:
      break;
  }
  LaneOutcome outcome = Lost();
  outcome.a_range = std::move(flight.a_range);
  return outcome;
}

LaneOutcome ClientLane::TakeAnswer(InFlight flight) {
  LaneOutcome outcome = Answered(ring_.StatusOf(flight.slot));
  outcome.a_range = std::move(flight.a_range);
  if (outcome.status.ok()) {
    outcome.timings = ring_.TimingsOf(flight.slot);
    outcome.is_placed = flight.c_range.is_none();
    outcome.c = outcome.is_placed ? flight.placed_c : flight.c_range.bytes();
    outcome.c_range = std::move(flight.c_range);
  }
  ring_.ReturnSlot(flight.slot);
  if (absl::IsNotFound(outcome.status) ||
      absl::IsInvalidArgument(outcome.status)) {
    targets_.Forget(flight.handle);
  }
  // Perhaps the name is bound to another shape by now.
  if (absl::IsInvalidArgument(outcome.status)) {
    outcome.end = LaneOutcome::End::kNotCarried;
  }
  return outcome;
}

LaneOutcome ClientLane::Lost() {
  LaneOutcome outcome;
  outcome.end = LaneOutcome::End::kLost;
  MutexLock lock(&mutex_);
  outcome.status =
      end_.ok() ? absl::UnavailableError("the server ends the lane") : end_;
  return outcome;
}

void ClientLane::Abandon(InFlight flight) {
  MutexLock lock(&mutex_);
  abandoned_.push_back(std::move(flight));
  has_abandoned_.store(true);
}

void ClientLane::FreeAbandoned() {
  if (!has_abandoned_.load(std::memory_order_relaxed)) return;
  std::vector<InFlight> answered;  // freed without the lock
  MutexLock lock(&mutex_);
  const auto waiting = std::partition(
      abandoned_.begin(), abandoned_.end(),
      [this](const InFlight& each) { return !ring_.IsDone(each.slot); });
  for (auto each = waiting; each != abandoned_.end(); ++each) {
    ring_.ReturnSlot(each->slot);
    answered.push_back(std::move(*each));
  }
  abandoned_.erase(waiting, abandoned_.end());
  has_abandoned_.store(!abandoned_.empty());
}

absl::Status ClientLane::Serve() {
  const absl::Status end = socket_->Serve();
  {
    MutexLock lock(&mutex_);
    end_ = end;
  }
  ring_.Close();
  reaper_.Stop();
  return end;
}

}  // namespace qgemm
