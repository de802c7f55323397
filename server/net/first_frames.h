// SPDX-License-Identifier: Apache-2.0
//
// Calls that an HTTP/2 client opens before it has acknowledged our SETTINGS:
// gRPC holds it to their limit of calls only from then on.

#ifndef QGEMM_SERVER_NET_FIRST_FRAMES_H_
#define QGEMM_SERVER_NET_FIRST_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace qgemm {

// Follows the frames of a connection (RFC 9113, sections 3.4 and 4.1) without
// a copy; whether they are well formed is gRPC's to say. Used by one thread at
// a time.
class FirstFrames {
 public:
  // The connection's next bytes, from its first on.
  void Add(absl::string_view bytes);

  // True from the acknowledgement on; what comes then is not followed.
  bool acknowledged() const { return acknowledged_; }
  // HEADERS frames that came before.
  int64_t calls() const { return calls_; }

 private:
  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kHeaderBytes = 9;

  void TakeHeader();

  size_t skipped_bytes_ = kPrefaceBytes;  // of what comes next
  std::array<unsigned char, kHeaderBytes> header_;
  size_t header_bytes_ = 0;  // of it that have come
  int64_t calls_ = 0;
  bool acknowledged_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_FIRST_FRAMES_H_
