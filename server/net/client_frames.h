// SPDX-License-Identifier: Apache-2.0
//
// Limits of what gRPC lets an HTTP/2 client do without end: open calls before
// it has acknowledged our SETTINGS, from which on it is held to theirs, and
// reset those that it has just opened, which then count no more. Under TLS no
// frames are to be seen: records are followed there.

#ifndef QGEMM_SERVER_NET_CLIENT_FRAMES_H_
#define QGEMM_SERVER_NET_CLIENT_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

  // Calls since the last time that were reset less than 10 to 20 ms after they
  // had come. Older ones are as many as may be open in such a time at most.
  int64_t TakeYoungResets() { return std::exchange(young_resets_, 0); }

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
  int64_t young_resets_ = 0;
  // Streams, which a client numbers upwards: the latest, and those up to which
  // all came before the mark was set, and before the one before it.
  uint32_t latest_stream_ = 0;
  uint32_t marked_stream_ = 0;
  uint32_t old_stream_ = 0;
  absl::Time marked_;
};

// Follows the records of a connection (RFC 8446, section 5) without a copy;
// whether they are well formed is OpenSSL's to say. All zero at first, so that
// a table of them takes no memory. Used by one thread at a time.
class TlsRecords {
 public:
  // The connection's next bytes, from its first on. Returns the bytes of
  // records that began here which are surely none of the client's data: their
  // headers, and the tags of those that carry data. A record of one byte counts
  // as one byte at least, whatever the cipher.
  int64_t Add(absl::string_view bytes);

 private:
  static constexpr size_t kHeaderBytes = 5;

  int64_t TakeHeader();

  size_t skipped_bytes_ = 0;  // of what comes next
  std::array<unsigned char, kHeaderBytes> header_{};
  size_t header_bytes_ = 0;  // of it that have come
};

// Young resets that each client may make: 500 at once and 4000 a second. Not
// thread-safe.
class ResetAllowances {
 public:
  // Counts resets of the client's, which were read at `now`. Returns the time
  // before which nothing more should be read of their connection: a second
  // later at most.
  absl::Time Add(uint64_t client, int64_t resets, absl::Time now);

 private:
  absl::flat_hash_map<uint64_t, absl::Time> paid_;  // until when
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_CLIENT_FRAMES_H_
