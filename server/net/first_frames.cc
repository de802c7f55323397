// SPDX-License-Identifier: Apache-2.0

#include "server/net/first_frames.h"

#include <algorithm>

namespace qgemm {
namespace {

constexpr unsigned char kHeaders = 1;
constexpr unsigned char kSettings = 4;
constexpr unsigned char kAck = 1;

}  // namespace

void FirstFrames::Add(absl::string_view bytes) {
  while (!bytes.empty() && !acknowledged_) {
    const size_t skipped = std::min(skipped_bytes_, bytes.size());
    skipped_bytes_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t taken = std::min(kHeaderBytes - header_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + header_bytes_);
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ == kHeaderBytes) TakeHeader();
  }
}

// 24 bits of length, 8 of type, 8 of flags, 32 of the stream.
void FirstFrames::TakeHeader() {
  header_bytes_ = 0;
  skipped_bytes_ =
      size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | size_t{header_[2]};
  if (header_[3] == kHeaders) ++calls_;
  acknowledged_ = header_[3] == kSettings && (header_[4] & kAck) != 0;
}

}  // namespace qgemm
