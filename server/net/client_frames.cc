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

// Time between two marks of the latest stream.
constexpr absl::Duration kMarkInterval = absl::Milliseconds(10);

// A call that is reset takes a thread some 35 us: 14% of its time, and 18 ms at
// once. 500 of them take the second.
constexpr absl::Duration kResetTime = absl::Microseconds(250);
constexpr absl::Duration kResetsAtOnce = absl::Milliseconds(125);
constexpr absl::Duration kMaxPause = absl::Seconds(1);

// Clients beyond which those that have paid are forgotten.
constexpr size_t kMaxKnown = 1024;

// Records of TLS.
constexpr unsigned char kApplicationData = 23;

// The least that a cipher of TLS 1.2 or later adds to a record.
constexpr size_t kTagBytes = 16;

}  // namespace

void ClientFrames::Add(absl::string_view bytes, absl::Time now) {
  if (now - marked_ >= kMarkInterval) {
    old_stream_ = std::exchange(marked_stream_, latest_stream_);
    marked_ = now;
  }
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
}

// 24 bits of length, 8 of type, 8 of flags, 32 of the stream.
void ClientFrames::TakeHeader() {
  header_bytes_ = 0;
  skipped_bytes_ =
      size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | size_t{header_[2]};
  const uint32_t stream = uint32_t{header_[5]} << 24 |
                          uint32_t{header_[6]} << 16 |
                          uint32_t{header_[7]} << 8 | uint32_t{header_[8]};
  switch (header_[3]) {
    case kHeaders:
      if (!acknowledged_) ++first_calls_;
      latest_stream_ = std::max(latest_stream_, stream);
      break;
    case kResetStream:
      if (stream > old_stream_) ++young_resets_;
      break;
    case kSettings:
      if ((header_[4] & kAck) != 0) acknowledged_ = true;
      break;
    default:
      break;
  }
}

bool ClientFrames::must_end() const { return first_calls_ > kMaxFirstCalls; }

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

absl::Time ResetAllowances::Add(uint64_t client, int64_t resets,
                                absl::Time now) {
  if (paid_.size() > kMaxKnown) {
    absl::erase_if(paid_,
                   [&](const auto& entry) { return entry.second < now; });
  }
  absl::Time& paid = paid_[client];
  paid = std::min(std::max(paid, now) + resets * kResetTime,
                  now + kResetsAtOnce + kMaxPause);
  return paid - kResetsAtOnce;
}

}  // namespace qgemm
