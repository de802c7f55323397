// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/access/identify.h"

namespace qgemm {
namespace {

absl::Status NotOpen(uint32_t number) {
  return absl::NotFoundError(
      absl::StrCat("handle = ", number, " is not open on this lane"));
}

}  // namespace

LaneClient::LaneClient(const CallGate* gate,
                       std::shared_ptr<const Peer> connection,
                       const std::string& token)
    : gate_(gate),
      connection_(std::move(connection)),
      authorization_(token.empty() ? "" : absl::StrCat("Bearer ", token)),
      admission_(Judge()) {}

CallGate::Admission LaneClient::Judge() const {
  Credentials shown;
  shown.authorization.assign(authorization_.empty() ? 0 : 1, authorization_);
  shown.user = connection_->user;
  return gate_->Admit(kLaneRpc, connection_, shown);
}

absl::StatusOr<std::shared_ptr<const Peer>> LaneClient::Current() const {
  MutexLock lock(&mutex_);
  if (!gate_->IsCurrent(admission_.generation)) admission_ = Judge();
  if (!admission_.status.ok()) return admission_.status;
  return admission_.peer;
}

absl::StatusOr<uint32_t> LaneHandles::Open(LaneHandle handle) {
  auto held = std::make_shared<const LaneHandle>(std::move(handle));
  MutexLock lock(&mutex_);
  if (open_.size() >= kMostHandles) {
    return absl::ResourceExhaustedError(
        absl::StrCat("handles = ", open_.size() + 1, "; a lane has at most ",
                     kMostHandles, ", close some"));
  }
  do {
    ++last_;
  } while (open_.count(last_) != 0);
  open_.emplace(last_, std::move(held));
  return last_;
}

absl::Status LaneHandles::Close(uint32_t number) {
  MutexLock lock(&mutex_);
  return open_.erase(number) != 0 ? absl::OkStatus() : NotOpen(number);
}

absl::StatusOr<std::shared_ptr<const LaneHandle>> LaneHandles::Find(
    uint32_t number) const {
  MutexLock lock(&mutex_);
  const auto found = open_.find(number);
  if (found == open_.end()) return NotOpen(number);
  return found->second;
}

absl::Status LaneRegions::CheckRoom() const {
  if (count_.load(std::memory_order_relaxed) < lane::kMaxRegions) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the lane has ", lane::kMaxRegions, " regions, as many as it may"));
}

uint32_t LaneRegions::Attach(StagingLease memory) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  CHECK_LT(count, lane::kMaxRegions);
  attached_[count] = std::move(memory);
  count_.store(count + 1, std::memory_order_release);
  return count + 1;
}

absl::StatusOr<LaneRegion> LaneRegions::Find(const char* field,
                                             uint8_t number) const {
  if (number == 0) return operands_;
  const uint32_t count = count_.load(std::memory_order_acquire);
  if (number > count) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " = ", static_cast<int>(number), "; the lane has ",
                     count, " regions beside its own memory"));
  }
  const StagingLease& memory = attached_[number - 1];
  return LaneRegion{memory.data(), memory.size_bytes()};
}

Lane::Lane(std::unique_ptr<const LaneMemory> memory, FileDescriptor doorbell,
           FileDescriptor wake, std::shared_ptr<const LaneClient> client)
    : memory_(std::move(memory)),
      doorbell_(std::move(doorbell)),
      client_(std::move(client)),
      regions_({memory_->operands(), memory_->layout().operands_bytes}),
      requests_(memory_.get()),
      completions_(memory_.get(), std::move(wake)) {}

bool Lane::Break(const absl::Status& violation) {
  MutexLock lock(&mutex_);
  if (!violation_.ok()) return false;
  violation_ = violation;
  broken_.store(true, std::memory_order_release);
  return true;
}

absl::Status Lane::violation() const {
  MutexLock lock(&mutex_);
  return violation_;
}

}  // namespace qgemm
