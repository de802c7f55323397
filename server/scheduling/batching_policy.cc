// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/batching_policy.h"

#include <algorithm>

namespace qgemm {

std::vector<int64_t> NextBatch(absl::Span<const WaitingRequest> queue,
                               const BatchingOptions& options) {
  if (queue.empty()) return {};
  const WaitingRequest& first = queue.front();
  std::vector<int64_t> batch = {0};
  const int64_t end = std::min<int64_t>(queue.size(), options.lookahead);
  // Counted downwards: a sum of rows could overflow.
  int64_t rows_left = options.max_rows - std::min(first.rows, options.max_rows);
  for (int64_t i = 1;
       i < end && static_cast<int64_t>(batch.size()) < options.max_requests;
       ++i) {
    const WaitingRequest& next = queue[i];
    if (next.weights != first.weights || next.signature != first.signature) {
      continue;
    }
    if (next.rows > rows_left) break;
    rows_left -= next.rows;
    batch.push_back(i);
  }
  return batch;
}

}  // namespace qgemm
