// SPDX-License-Identifier: Apache-2.0
//
// System calls on sockets of lanes. None of them waits, whatever flags the
// client sets.

#ifndef QGEMM_SERVER_LANE_LANE_SOCKETS_H_
#define QGEMM_SERVER_LANE_LANE_SOCKETS_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"

namespace qgemm {

// Outcome of a read.
struct ReceivedPacket {
  bool has_ended = false;                   // the other end hung up
  std::optional<absl::string_view> packet;  // nullopt: nothing is there
  FileDescriptor descriptor;  // that came with it, the first of several
};

// Reads one packet into `buffer`; the system closes further descriptors that
// come with it. INVALID_ARGUMENT if it does not fit.
absl::StatusOr<ReceivedPacket> ReceivePacket(int socket,
                                             absl::Span<char> buffer);

// Sends a packet with copies of the descriptors. UNAVAILABLE if the other end
// is gone, or has left so much unread that this has no room.
absl::Status SendPacket(int socket, absl::string_view packet,
                        absl::Span<const int> descriptors = {});

// A doorbell, and both ends of a wake: the server's first.
struct LaneEvents {
  FileDescriptor doorbell;
  FileDescriptor wake;
  FileDescriptor client_wake;
};

// Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<LaneEvents> MakeLaneEvents();

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_LANE_SOCKETS_H_
