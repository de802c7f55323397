// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/batching_policy.h"

#include <algorithm>

namespace qgemm {

int64_t NextBatchSize(absl::Span<const WaitingRequest> queue,
                      const BatchingOptions& options) {
  if (queue.empty()) return 0;
  const WaitingRequest& first = queue.front();
  const int64_t last =
      std::min(static_cast<int64_t>(queue.size()), options.max_requests);
  // Counted downwards: a sum of rows could overflow.
  int64_t rows_left = options.max_rows - std::min(first.rows, options.max_rows);
  int64_t size = 1;
  for (; size < last; ++size) {
    const WaitingRequest& next = queue[size];
    if (next.weights != first.weights || next.signature != first.signature ||
        next.rows > rows_left) {
      break;
    }
    rows_left -= next.rows;
  }
  return size;
}

}  // namespace qgemm
