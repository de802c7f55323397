// SPDX-License-Identifier: Apache-2.0
//
// One socket that listens, and the file of a Unix one: who may own it, who may
// connect. accept_loop.h accepts.

#ifndef QGEMM_SERVER_NET_LISTENER_H_
#define QGEMM_SERVER_NET_LISTENER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "server/net/listen.h"

namespace qgemm {

// Kind of a Unix socket: a stream of bytes, or packets in order
// (SOCK_SEQPACKET).
enum class SocketType : uint8_t { kStream, kPackets };

// A Unix socket and its file.
struct SocketFileOptions {
  SocketType type = SocketType::kStream;
  // Permissions; nullopt: those that the umask leaves.
  std::optional<mode_t> mode;
  // nullopt: the group of the process.
  std::optional<gid_t> group;
};

// The text of a mode is octal ("0660"; empty = nullopt), that of a group a name
// or a number. Errors: INVALID_ARGUMENT names the flag and the text.
absl::StatusOr<std::optional<mode_t>> ParseSocketMode(absl::string_view text);
absl::StatusOr<std::optional<gid_t>> ParseSocketGroup(const std::string& text);

// A listening socket that does not block. A Unix socket's path is this
// process's for the life of the object: PATH.lock is locked, so that of two
// servers that start at once one is refused. The file at the path is replaced
// if it is a socket at which nobody listens, and removed at the end together
// with the lock. Move-only.
class Listener {
 public:
  // The host of `address` is numeric. Nobody can connect before the socket's
  // file has its group and mode.
  // Errors: FAILED_PRECONDITION names the address and the system's reason.
  static absl::StatusOr<Listener> Open(const ListenAddress& address,
                                       const SocketFileOptions& options);
  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int fd() const { return socket_.get(); }
  // With the actual port.
  const ListenAddress& address() const { return address_; }

 private:
  Listener() = default;

  absl::Status Bind(SocketType type);
  // Takes the path, and gives the socket's file its owner and mode.
  absl::Status TakePath(SocketType type);
  absl::Status SetFile(const SocketFileOptions& options);

  ListenAddress address_;
  FileDescriptor socket_;
  // Unix sockets only.
  FileDescriptor lock_;
  ino_t inode_ = 0;  // of the socket's file; 0 = none was made
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_LISTENER_H_
