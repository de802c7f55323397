// SPDX-License-Identifier: Apache-2.0
//
// Cuts a section, arriving in pieces of any size, into whole records.

#ifndef QGEMM_KERNELS_FORMATS_RECORD_STREAM_H_
#define QGEMM_KERNELS_FORMATS_RECORD_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace qgemm {

// Codes that a decoder hands on at once: they stay in a core's L2 cache on
// the way to the sink.
constexpr int64_t kPanelCodes = int64_t{1} << 18;

// Rows of `k` codes that make a panel.
constexpr int64_t PanelRows(int64_t k) {
  return std::max<int64_t>(1, kPanelCodes / k);
}

// Passes on the records of a stream in order, several at a time, in place
// where a piece holds them whole; keeps at most one record. Not thread-safe.
class RecordStream {
 public:
  // Records first .. first + count - 1, the bytes without gaps. The bytes
  // have no alignment.
  using Handler = absl::FunctionRef<absl::Status(int64_t first, int64_t count,
                                                 const uint8_t* bytes)>;

  // At most `max_records` in a call of the handler.
  explicit RecordStream(
      int64_t record_bytes,
      int64_t max_records = std::numeric_limits<int64_t>::max())
      : record_bytes_(record_bytes), max_records_(max_records) {}

  // The stream's next bytes. Errors: the handler's.
  absl::Status Append(absl::Span<const uint8_t> bytes, Handler handler);

 private:
  // Moves bytes into `partial_` until it is a record or they are used up.
  void FillPartial(absl::Span<const uint8_t>* bytes);

  const int64_t record_bytes_;
  const int64_t max_records_;
  int64_t next_record_ = 0;
  std::vector<uint8_t> partial_;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_FORMATS_RECORD_STREAM_H_
