// SPDX-License-Identifier: Apache-2.0

#include "server/net/listener.h"

#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/net/socket_address.h"

namespace qgemm {
namespace {

// Connections that may wait to be accepted; the kernel has its own bound
// (net.core.somaxconn).
constexpr int kBacklog = 4096;

// A lock's file may be removed by its last holder at the moment it is opened.
constexpr int kLockAttempts = 16;

absl::Status Refused(const ListenAddress& address, absl::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("listen on ", address.ToString(), ": ", reason));
}

absl::Status SystemRefused(const ListenAddress& address,
                           absl::string_view step = "") {
  const char* const reason = std::strerror(errno);
  return Refused(address,
                 step.empty() ? reason : absl::StrCat(step, ": ", reason));
}

absl::StatusOr<FileDescriptor> NewSocket(const ListenAddress& address,
                                         int family, SocketType type) {
  const int kind = type == SocketType::kPackets ? SOCK_SEQPACKET : SOCK_STREAM;
  FileDescriptor fd(socket(family, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemRefused(address, "open a socket");
  return fd;
}

// True if `fd` is the file at `path`.
bool IsFileAt(int fd, const std::string& path) {
  struct stat held;
  struct stat named;
  return fstat(fd, &held) == 0 && lstat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// Returns `path`, created and locked by this process.
absl::StatusOr<FileDescriptor> Lock(const ListenAddress& address,
                                    const std::string& path) {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    FileDescriptor file(
        open(path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid()) return SystemRefused(address, "open " + path);
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return Refused(address, absl::StrCat("another process listens there, "
                                             "or is about to: it holds ",
                                             path));
      }
      return SystemRefused(address, "lock " + path);
    }
    if (IsFileAt(file.get(), path)) return file;
  }
  return Refused(address, absl::StrCat(path, " is replaced again and again"));
}

// Returns OK if there is no file at the address. Removes a Unix socket at which
// nobody listens.
absl::Status ClearPath(const ListenAddress& address, SocketType type) {
  struct stat file;
  if (lstat(address.path.c_str(), &file) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return SystemRefused(address);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return Refused(address, "the path is taken by a file that is not a socket");
  }
  ASSIGN_OR_RETURN(const FileDescriptor probe,
                   NewSocket(address, AF_UNIX, type));
  ASSIGN_OR_RETURN(const SocketAddress end, ToSocketAddress(address));
  if (connect(probe.get(), end.get(), end.length) == 0 ||
      errno == EAGAIN ||      // too many wait to be accepted
      errno == EPROTOTYPE) {  // a socket of the other type
    return Refused(address, "another process listens there");
  }
  if (errno != ECONNREFUSED) return SystemRefused(address);
  if (unlink(address.path.c_str()) != 0) {
    return SystemRefused(address, "remove the stale socket");
  }
  return absl::OkStatus();
}

std::string LockPath(const ListenAddress& address) {
  return address.path + ".lock";
}

}  // namespace

absl::StatusOr<std::optional<mode_t>> ParseSocketMode(absl::string_view text) {
  if (text.empty()) return std::optional<mode_t>();
  mode_t mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || mode > 0777) {
      mode = 01000;
      break;
    }
    mode = mode * 8 + (digit - '0');
  }
  if (mode > 0777) {
    return absl::InvalidArgumentError(
        absl::StrCat("--socket_mode = \"", text,
                     "\" is not an octal number from 0 to 0777, such as 0660"));
  }
  return std::optional<mode_t>(mode);
}

absl::StatusOr<std::optional<gid_t>> ParseSocketGroup(const std::string& text) {
  if (text.empty()) return std::optional<gid_t>();
  gid_t number = 0;
  if (absl::ascii_isdigit(text[0]) && absl::SimpleAtoi(text, &number)) {
    return std::optional<gid_t>(number);
  }
  const group* const found = getgrnam(text.c_str());
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--socket_group = \"", text,
        "\" is no group of this host; give the name or number of one"));
  }
  return std::optional<gid_t>(found->gr_gid);
}

absl::StatusOr<Listener> Listener::Open(const ListenAddress& address,
                                        const SocketFileOptions& options) {
  Listener listener;
  listener.address_ = address;
  const bool is_unix = address.kind == ListenAddress::Kind::kUnix;
  if (is_unix) RETURN_IF_ERROR(listener.TakePath(options.type));
  RETURN_IF_ERROR(listener.Bind(options.type));
  if (is_unix) RETURN_IF_ERROR(listener.SetFile(options));
  if (listen(listener.fd(), kBacklog) != 0) return SystemRefused(address);
  return listener;
}

Listener::~Listener() {
  if (!lock_.valid()) return;  // TCP, or moved from
  struct stat file;
  if (inode_ != 0 && lstat(address_.path.c_str(), &file) == 0 &&
      file.st_ino == inode_) {
    unlink(address_.path.c_str());
  }
  unlink(LockPath(address_).c_str());
}

absl::Status Listener::TakePath(SocketType type) {
  ASSIGN_OR_RETURN(lock_, Lock(address_, LockPath(address_)));
  return ClearPath(address_, type);
}

absl::Status Listener::Bind(SocketType type) {
  ASSIGN_OR_RETURN(SocketAddress end, ToSocketAddress(address_));
  ASSIGN_OR_RETURN(socket_, NewSocket(address_, end.family(), type));
  if (end.family() != AF_UNIX) {
    const int on = 1;
    // Connections of an earlier server do not keep the port.
    setsockopt(fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Accepted sockets inherit it: no answer is held back for more to send.
    setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (bind(fd(), end.get(), end.length) != 0 ||
      getsockname(fd(), end.get(), &end.length) != 0) {
    return SystemRefused(address_);
  }
  if (end.family() != AF_UNIX) address_.port = end.Port();
  return absl::OkStatus();
}

// The socket does not listen yet, so that connections are refused meanwhile.
absl::Status Listener::SetFile(const SocketFileOptions& options) {
  const char* const path = address_.path.c_str();
  struct stat file;
  if (lstat(path, &file) != 0) return SystemRefused(address_);
  inode_ = file.st_ino;
  constexpr uid_t kSameOwner = -1;
  if (options.group.has_value() &&
      lchown(path, kSameOwner, *options.group) != 0) {
    return SystemRefused(
        address_, absl::StrCat("give the socket to group ", *options.group));
  }
  if (options.mode.has_value() && chmod(path, *options.mode) != 0) {
    return SystemRefused(address_, "set the socket's mode");
  }
  return absl::OkStatus();
}

}  // namespace qgemm
