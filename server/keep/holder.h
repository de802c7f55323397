// SPDX-License-Identifier: Apache-2.0
//
// The loop of qgemm_holder, and its decisions: what it holds, for whom, and
// until when.

#ifndef QGEMM_SERVER_KEEP_HOLDER_H_
#define QGEMM_SERVER_KEEP_HOLDER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/keep/holder_packets.h"

namespace qgemm {

inline constexpr size_t kMaxHeldDescriptors = 4096;

// The table, without sockets. Not thread-safe.
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

// For one thread.
class Holder {
 public:
  // Listens at the path, which is replaced if it is a socket that nobody
  // listens at; its mode is 0600. `clock` must outlive it. Errors:
  // INVALID_ARGUMENT (the path), FAILED_PRECONDITION (somebody listens there),
  // INTERNAL.
  static absl::StatusOr<Holder> Listen(const std::string& path,
                                       absl::Duration hold, const Clock* clock);

  // Serves what has come, and waits for up to `at_most` if nothing has.
  void ServeOnce(absl::Duration at_most);

  size_t held() const { return table_->held().size(); }

 private:
  Holder(FileDescriptor listener, absl::Duration hold, const Clock* clock)
      : listener_(std::move(listener)),
        clock_(clock),
        table_(std::make_unique<HeldDescriptors>(hold)) {}

  void Accept();
  // False once the connection has ended.
  bool Serve(int connection);
  bool AnswerClaim(int connection);

  FileDescriptor listener_;
  const Clock* clock_;
  std::unique_ptr<HeldDescriptors> table_;
  std::vector<FileDescriptor> connections_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_HOLDER_H_
