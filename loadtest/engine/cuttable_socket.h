// SPDX-License-Identifier: Apache-2.0
//
// A connected socket whose other owner can be cut off: what a client that
// vanishes looks like to a server.

#ifndef QGEMM_LOADTEST_ENGINE_CUTTABLE_SOCKET_H_
#define QGEMM_LOADTEST_ENGINE_CUTTABLE_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace qgemm {

// Move-only. Thread-safe but for moving.
class CuttableSocket {
 public:
  // Connects to "host:port" or "unix:path". Errors: UNAVAILABLE;
  // INVALID_ARGUMENT (a path too long for a socket).
  static absl::StatusOr<CuttableSocket> Connect(const std::string& target);

  CuttableSocket(CuttableSocket&& other) noexcept;
  CuttableSocket& operator=(CuttableSocket&&) = delete;
  ~CuttableSocket();

  // A descriptor of the same connection, non-blocking, for the caller to own.
  absl::StatusOr<int> Duplicate() const;

  // Ends the connection at once for every descriptor of it.
  void Cut();

 private:
  explicit CuttableSocket(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;  // -1: moved from
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_CUTTABLE_SOCKET_H_
