// SPDX-License-Identifier: Apache-2.0
//
// Only the record that a piece ends in is copied.

#include "kernels/formats/record_stream.h"

#include "base/status_macros.h"

namespace qgemm {

void RecordStream::FillPartial(absl::Span<const uint8_t>* bytes) {
  if (partial_.capacity() == 0) partial_.reserve(record_bytes_);
  const size_t missing = record_bytes_ - partial_.size();
  const absl::Span<const uint8_t> head = bytes->subspan(0, missing);
  partial_.insert(partial_.end(), head.begin(), head.end());
  bytes->remove_prefix(head.size());
}

absl::Status RecordStream::Append(absl::Span<const uint8_t> bytes,
                                  Handler handler) {
  if (!partial_.empty()) {
    FillPartial(&bytes);
    if (static_cast<int64_t>(partial_.size()) < record_bytes_) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(handler(next_record_++, 1, partial_.data()));
    partial_.clear();
  }
  while (static_cast<int64_t>(bytes.size()) >= record_bytes_) {
    const int64_t count =
        std::min<int64_t>(bytes.size() / record_bytes_, max_records_);
    RETURN_IF_ERROR(handler(next_record_, count, bytes.data()));
    next_record_ += count;
    bytes.remove_prefix(count * record_bytes_);
  }
  if (!bytes.empty()) FillPartial(&bytes);
  return absl::OkStatus();
}

}  // namespace qgemm
