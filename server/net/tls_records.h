// SPDX-License-Identifier: Apache-2.0
//
// Bytes that TLS adds to what a client sends. The rest cannot be read here.

#ifndef QGEMM_SERVER_NET_TLS_RECORDS_H_
#define QGEMM_SERVER_NET_TLS_RECORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace qgemm {

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

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_TLS_RECORDS_H_
