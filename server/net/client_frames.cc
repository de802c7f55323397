// SPDX-License-Identifier: Apache-2.0

#include "server/net/client_frames.h"

#include <algorithm>

namespace qgemm {
namespace {

constexpr unsigned char kHeaders = 1;
constexpr unsigned char kResetStream = 3;
constexpr unsigned char kSettings = 4;
constexpr unsigned char kAck = 1;

// Calls before the acknowledgement; then a connection may have 128 open
// (grpc_settings.cc).
constexpr int64_t kMaxFirstCalls = 256;

// A call that is reset takes a thread some 35 us: 7% of its time, and 9 ms at
// once. 250 of them take the second.
constexpr absl::Duration kResetTime = absl::Microseconds(500);
constexpr absl::Duration kResetsAtOnce = absl::Milliseconds(125);
constexpr absl::Duration kMaxPause = absl::Seconds(1);

}  // namespace

void ClientFrames::Add(absl::string_view bytes, absl::Time now) {
  resets_ = 0;
  const size_t preface = std::min(kPrefaceBytes - preface_bytes_, bytes.size());
  preface_bytes_ += preface;
  bytes.remove_prefix(preface);
  while (!bytes.empty()) {
    const size_t skipped = std::min(skipped_bytes_, bytes.size());
    skipped_bytes_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t taken = std::min(kHeaderBytes - header_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, header_.begin() + header_bytes_);
    header_bytes_ += taken;
    bytes.remove_prefix(taken);
    if (header_bytes_ == kHeaderBytes) TakeHeader();
  }
  if (resets_ == 0) return;
  resets_paid_ = std::min(std::max(resets_paid_, now) + resets_ * kResetTime,
                          now + kResetsAtOnce + kMaxPause);
}

// 24 bits of length, 8 of type, 8 of flags, 32 of the stream.
void ClientFrames::TakeHeader() {
  header_bytes_ = 0;
  skipped_bytes_ =
      size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | size_t{header_[2]};
  switch (header_[3]) {
    case kHeaders:
      if (!acknowledged_) ++first_calls_;
      break;
    case kResetStream:
      ++resets_;
      break;
    case kSettings:
      if ((header_[4] & kAck) != 0) acknowledged_ = true;
      break;
    default:
      break;
  }
}

bool ClientFrames::must_end() const { return first_calls_ > kMaxFirstCalls; }

absl::Time ClientFrames::read_after() const {
  return resets_paid_ - kResetsAtOnce;
}

}  // namespace qgemm
