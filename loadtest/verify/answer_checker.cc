// SPDX-License-Identifier: Apache-2.0

#include "loadtest/verify/answer_checker.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "loadtest/random/random_bits.h"

namespace qgemm {
namespace {

constexpr uint64_t kSampleEvery = 16;

// The first one, and of the others one in kSampleEvery at random: at regular
// distances a walk would show the same few layers again and again.
bool IsInSample(int64_t sequence) {
  return sequence == 0 ||
         MixBits(static_cast<uint64_t>(sequence)) % kSampleEvery == 0;
}

using Pieces = absl::Span<const absl::string_view>;

int64_t SizeOf(Pieces c) {
  int64_t bytes = 0;
  for (absl::string_view piece : c) bytes += piece.size();
  return bytes;
}

uint32_t ChecksumOf(Pieces c) {
  uint32_t crc32c = 0;
  for (absl::string_view piece : c) crc32c = ExtendCrc32c(crc32c, piece);
  return crc32c;
}

std::string Joined(Pieces c) {
  std::string bytes;
  bytes.reserve(SizeOf(c));
  for (absl::string_view piece : c) bytes.append(piece.data(), piece.size());
  return bytes;
}

bool Equal(absl::string_view kept, Pieces c) {
  for (absl::string_view piece : c) {
    if (kept.substr(0, piece.size()) != piece) return false;
    kept.remove_prefix(piece.size());
  }
  return kept.empty();
}

}  // namespace

AnswerChecker::AnswerChecker(VerifyMode mode, int messages, int64_t kept_bytes)
    : mode_(mode), room_bytes_(kept_bytes), first_(messages) {
  report_.mode = std::string(Name(mode));
}

void AnswerChecker::OnAnswer(int message, int64_t sequence, Pieces c) {
  if (mode_ == VerifyMode::kNone) return;
  if (mode_ == VerifyMode::kSample && !IsInSample(sequence)) return;
  const int64_t bytes = SizeOf(c);
  const uint32_t crc32c = ChecksumOf(c);
  First first;
  {
    MutexLock lock(&mutex_);
    ++report_.answers_compared;
    First& entry = first_[message];
    if (!entry.seen) {
      entry.seen = true;
      entry.bytes = bytes;
      entry.crc32c = crc32c;
      if (bytes > room_bytes_) return;
      room_bytes_ -= bytes;
      entry.kept = std::make_shared<const std::string>(Joined(c));
      return;
    }
    first = entry;
  }
  const bool equal = first.bytes == bytes && first.crc32c == crc32c &&
                     (first.kept == nullptr || Equal(*first.kept, c));
  if (equal) return;
  MutexLock lock(&mutex_);
  if (report_.answers_different++ > 0) return;
  report_.status = absl::DataLossError(absl::StrCat(
      "two answers to request ", message, " differ in their bits"));
}

VerifyReport AnswerChecker::Report() const {
  MutexLock lock(&mutex_);
  return report_;
}

std::shared_ptr<const std::string> AnswerChecker::Kept(int message) const {
  MutexLock lock(&mutex_);
  return first_[message].kept;
}

}  // namespace qgemm
