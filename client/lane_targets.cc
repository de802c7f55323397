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
  std::string key = KeyOf(target);
  {
    MutexLock lock(&mutex_);
    const auto found = targets_.find(key);
    if (found != targets_.end()) return found->second;
  }
  auto opened =
      socket_->Open(target.kind, target.name, target.client_id, deadline);
  if (absl::IsResourceExhausted(opened.status())) {
    ForgetAll();
    opened =
        socket_->Open(target.kind, target.name, target.client_id, deadline);
  }
  if (!opened.ok()) return opened.status();
  auto handle = std::make_shared<const OpenLaneTarget>(*opened, socket_);
  MutexLock lock(&mutex_);
  // Two threads may have opened it: one handle stays, the other serves one
  // call.
  targets_.emplace(std::move(key), handle);
  return handle;
}

void LaneTargets::Forget(const LaneTarget& target, const HandlePtr& handle) {
  const std::string key = KeyOf(target);
  MutexLock lock(&mutex_);
  const auto found = targets_.find(key);
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
