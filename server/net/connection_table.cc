// SPDX-License-Identifier: Apache-2.0

#include "server/net/connection_table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace qgemm {
namespace {

// Bounds what a flood of refused connections makes the sweep cost.
constexpr absl::Duration kLeastSweepInterval = absl::Milliseconds(10);

}  // namespace

// gRPC may close the descriptor meanwhile: either answer is right then. TSan
// takes fstat beside close for a race, and statx not.
ino_t InodeOf(int fd) {
  struct statx file;
  return statx(fd, "", AT_EMPTY_PATH, STATX_INO, &file) == 0 ? file.stx_ino : 0;
}

ConnectionTable::Admission ConnectionTable::Admit(const std::string& identity,
                                                  absl::Time now, Ended ended) {
  const Admission admission = Check(identity);
  if (admission == Admission::kAdmitted ||
      now - looked_ < kLeastSweepInterval) {
    return admission;
  }
  RemoveEnded(now, ended);
  return Check(identity);
}

void ConnectionTable::Add(Connection connection) {
  ++by_identity_[connection.peer->identity];
  connections_.push_back(std::move(connection));
}

void ConnectionTable::RemoveEnded(absl::Time now, Ended ended) {
  looked_ = now;
  for (size_t i = 0; i < connections_.size();) {
    if (InodeOf(connections_[i].fd) == connections_[i].inode) {
      ++i;
      continue;
    }
    const Connection gone = std::move(connections_[i]);
    if (i + 1 < connections_.size()) {
      connections_[i] = std::move(connections_.back());
    }
    connections_.pop_back();
    const auto count = by_identity_.find(gone.peer->identity);
    if (--count->second == 0) by_identity_.erase(count);
    ended(gone);
  }
}

ConnectionTable::Admission ConnectionTable::Check(
    const std::string& identity) const {
  if (connections_.size() >= limits_.max_connections) {
    return Admission::kTotalReached;
  }
  const auto found = by_identity_.find(identity);
  const int64_t count = found == by_identity_.end() ? 0 : found->second;
  const int64_t for_it =
      limits_.max_connections - (static_cast<int64_t>(size()) - count);
  const int64_t share =
      limits_.max_peer_connections * for_it / limits_.max_connections;
  return count < std::max<int64_t>(1, share) ? Admission::kAdmitted
                                             : Admission::kPeerReached;
}

}  // namespace qgemm
