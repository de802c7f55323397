// SPDX-License-Identifier: Apache-2.0
//
// Packets between a server and qgemm_holder, on a Unix socket of the kind
// SOCK_SEQPACKET: a word, and a descriptor's name if it has one. What a packet
// says of a descriptor comes with a copy of it.
//
//   server            holder's answer
//   CLAIM             HELD NAME for each (with it), then END; or BUSY: another
//                     server has claimed and is still connected
//   STORE NAME (it)   none; replaces one of that name
//   DROP NAME         none

#ifndef QGEMM_SERVER_KEEP_HOLDER_PACKETS_H_
#define QGEMM_SERVER_KEEP_HOLDER_PACKETS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace qgemm {

inline constexpr absl::string_view kClaim = "CLAIM";
inline constexpr absl::string_view kHeld = "HELD";
inline constexpr absl::string_view kEnd = "END";
inline constexpr absl::string_view kBusy = "BUSY";
inline constexpr absl::string_view kStore = "STORE";
inline constexpr absl::string_view kDrop = "DROP";

// systemd's limit, for both holders.
inline constexpr size_t kMaxDescriptorName = 255;

struct HolderPacket {
  std::string word;
  std::string name;
  FileDescriptor descriptor;
};

// Errors: UNAVAILABLE (the other end is gone, or has no room for it within the
// socket's time).
absl::Status SendHolderPacket(int socket, absl::string_view word,
                              absl::string_view name = "", int descriptor = -1);

// Errors: UNAVAILABLE (the other end hung up, or nothing came within the
// socket's time), INVALID_ARGUMENT (longer than a packet may be).
absl::StatusOr<HolderPacket> ReceiveHolderPacket(int socket);

// A socket's address. INVALID_ARGUMENT if the path is too long for one, or not
// absolute.
absl::Status CheckHolderPath(const std::string& path);

// True if the socket's other end runs as this process's user.
bool IsOwnUser(int socket);

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_HOLDER_PACKETS_H_
