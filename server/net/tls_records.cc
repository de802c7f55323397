// SPDX-License-Identifier: Apache-2.0

#include "server/net/tls_records.h"

#include <algorithm>

namespace qgemm {
namespace {

constexpr unsigned char kApplicationData = 23;

// The least that a cipher of TLS 1.2 or later adds to a record.
constexpr size_t kTagBytes = 16;

}  // namespace

int64_t TlsRecords::Add(absl::string_view bytes) {
  int64_t added_bytes = 0;
  while (!bytes.empty()) {
    const size_t skipped = std::min(skipped_bytes_, bytes.size());
    skipped_bytes_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t taken = std::min(kHeaderBytes - header_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + header_bytes_);
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ == kHeaderBytes) added_bytes += TakeHeader();
  }
  return added_bytes;
}

// 8 bits of type, 16 of a version, 16 of the length of what follows.
int64_t TlsRecords::TakeHeader() {
  header_bytes_ = 0;
  skipped_bytes_ = size_t{header_[3]} << 8 | size_t{header_[4]};
  const size_t tag =
      header_[0] == kApplicationData ? std::min(kTagBytes, skipped_bytes_) : 0;
  return static_cast<int64_t>(kHeaderBytes + tag);
}

}  // namespace qgemm
