// SPDX-License-Identifier: Apache-2.0

#include "client/lane_targets.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

std::string KeyOf(const LaneTarget& target) {
  const char kind = target.kind == lane::HandleKind::kProgram ? 'p' : 'w';
  // No name has a zero byte.
  return absl::StrCat(absl::string_view(&kind, 1), target.name,
                      absl::string_view("\0", 1), target.client_id);
}

}  // namespace

absl::StatusOr<LaneTargets::HandlePtr> LaneTargets::Find(
    const LaneTarget& target, absl::Time deadline) {
  if (HandlePtr handle = FindOpen(target)) return handle;
  auto opened =
      socket_->Open(target.kind, target.name, target.client_id, deadline);
  if (absl::IsResourceExhausted(opened.status())) {
    ForgetAll();
    opened =
        socket_->Open(target.kind, target.name, target.client_id, deadline);
  }
  if (!opened.ok()) return opened.status();
  return Keep(KeyOf(target), *opened);
}

LaneTargets::HandlePtr LaneTargets::Keep(const std::string& key,
                                         const lane::Opened& opened) {
  auto handle = std::make_shared<const OpenLaneTarget>(key, opened, socket_);
  MutexLock lock(&mutex_);
  // Two threads may have opened it: one handle stays, the other serves one
  // call.
  targets_.emplace(key, handle);
  return handle;
}

LaneTargets::HandlePtr LaneTargets::FindOpen(const LaneTarget& target) {
  MutexLock lock(&mutex_);
  const auto found = targets_.find(KeyOf(target));
  return found == targets_.end() ? nullptr : found->second;
}

void LaneTargets::OpenLater(const LaneTarget& target, OpenDone done) {
  const std::string key = KeyOf(target);
  {
    MutexLock lock(&mutex_);
    std::vector<OpenDone>& waiting = opening_[key];
    waiting.push_back(std::move(done));
    if (waiting.size() > 1) return;
  }
  socket_->OpenLater(target.kind, target.name, target.client_id,
                     [this, key](const absl::StatusOr<lane::Opened>& opened) {
                       if (opened.ok()) Keep(key, *opened);
                       EndOpening(key, opened.status());
                     });
}

void LaneTargets::EndOpening(const std::string& key,
                             const absl::Status& status) {
  // The next one finds room.
  if (absl::IsResourceExhausted(status)) ForgetAll();
  std::vector<OpenDone> waiting;
  {
    MutexLock lock(&mutex_);
    const auto found = opening_.find(key);
    waiting.swap(found->second);
    opening_.erase(found);
  }
  for (OpenDone& done : waiting) done(status);
}

void LaneTargets::Forget(const HandlePtr& handle) {
  MutexLock lock(&mutex_);
  const auto found = targets_.find(handle->key());
  // The caller's reference keeps it from being closed under the lock.
  if (found != targets_.end() && found->second == handle) {
    targets_.erase(found);
  }
}

void LaneTargets::ForgetAll() {
  absl::flat_hash_map<std::string, HandlePtr> forgotten;  // outlives the lock
  MutexLock lock(&mutex_);
  forgotten.swap(targets_);
}

}  // namespace qgemm
