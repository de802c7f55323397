// SPDX-License-Identifier: Apache-2.0
//
// What qgemm_holder holds, for whom, and until when. Decisions only: sockets
// are in holder.h.

#ifndef QGEMM_SERVER_KEEP_HELD_DESCRIPTORS_H_
#define QGEMM_SERVER_KEEP_HELD_DESCRIPTORS_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "server/keep/holder_packets.h"

namespace qgemm {

inline constexpr size_t kMaxHeldDescriptors = 4096;

// Not thread-safe.
class HeldDescriptors {
 public:
  // Drops all once no server has been connected for `hold`.
  explicit HeldDescriptors(absl::Duration hold) : hold_(hold) {}

  // False if another connection has claimed. The caller may repeat it.
  bool Claim(int connection) {
    if (claimed_by_.value_or(connection) != connection) return false;
    claimed_by_ = connection;
    deadline_ = absl::InfiniteFuture();
    return true;
  }

  // Holds a descriptor; false if the connection has not claimed, or the name is
  // not legal, or there are too many.
  bool Store(int connection, const std::string& name, FileDescriptor held) {
    if (claimed_by_ != connection || !held.valid() || name.empty() ||
        name.size() > kMaxDescriptorName ||
        (held_.size() >= kMaxHeldDescriptors && held_.count(name) == 0)) {
      return false;
    }
    held_[name] = std::move(held);
    return true;
  }

  // False if the connection has not claimed.
  bool Drop(int connection, const std::string& name) {
    if (claimed_by_ != connection) return false;
    held_.erase(name);
    return true;
  }

  // The connection has ended.
  void Leave(int connection, absl::Time now) {
    if (claimed_by_ != connection) return;
    claimed_by_.reset();
    if (!held_.empty()) deadline_ = now + hold_;
  }

  // The time at which all is dropped, unless a server claims before.
  absl::Time deadline() const { return deadline_; }
  // True if that was done.
  bool DropIfDue(absl::Time now) {
    if (now < deadline_) return false;
    held_.clear();
    deadline_ = absl::InfiniteFuture();
    return true;
  }

  const std::map<std::string, FileDescriptor>& held() const { return held_; }

 private:
  const absl::Duration hold_;
  std::map<std::string, FileDescriptor> held_;
  std::optional<int> claimed_by_;
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_HELD_DESCRIPTORS_H_
