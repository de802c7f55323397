// SPDX-License-Identifier: Apache-2.0
//
// Limits of what gRPC lets an HTTP/2 client do without end: open calls before
// it has acknowledged our SETTINGS, from which on it is held to theirs, and
// reset those that it has opened, which then count no more.

#ifndef QGEMM_SERVER_NET_CLIENT_FRAMES_H_
#define QGEMM_SERVER_NET_CLIENT_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

// Follows the frames of a connection (RFC 9113, sections 3.4 and 4.1) without
// a copy; whether they are well formed is gRPC's to say. All zero at first, so
// that a table of them takes no memory. Used by one thread at a time.
class ClientFrames {
 public:
  // The connection's next bytes, from its first on, read at `now`.
  void Add(absl::string_view bytes, absl::Time now);

  // True if more than 256 calls came before the acknowledgement.
  bool must_end() const;

  // Time before which no more should be read: a connection may reset 250 calls
  // at once, twice as many as it may have open, and 2000 a second. A second
  // after the latest bytes at most.
  absl::Time read_after() const;

 private:
  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kHeaderBytes = 9;

  void TakeHeader();

  size_t preface_bytes_ = 0;  // that have come
  size_t skipped_bytes_ = 0;  // of what comes next
  std::array<unsigned char, kHeaderBytes> header_{};
  size_t header_bytes_ = 0;  // of it that have come
  int64_t first_calls_ = 0;
  bool acknowledged_ = false;
  int64_t resets_ = 0;      // of the bytes that are being added
  absl::Time resets_paid_;  // at 2000 a second
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_CLIENT_FRAMES_H_
