// SPDX-License-Identifier: Apache-2.0
//
// Decides which waiting requests form the next batch.
// Decisions only: queue, clock and threads are in batch_scheduler.h.

#ifndef QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
#define QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"

namespace qgemm {

struct BatchingOptions {
  // 1 runs every request in a launch of its own.
  int64_t max_requests = 1;
  // Of a batch of more than one request; one request alone may have more.
  int64_t max_rows = 64;
  // How far into the queue it is looked for requests that may join.
  int64_t lookahead = 256;
};

// What the policy sees of a waiting request.
struct WaitingRequest {
  const ResidentWeights* weights = nullptr;
  MatmulSignature signature;
  int64_t rows = 0;
};

// Which requests run in the next launch, by their places in the queue, in
// ascending order: the first, and those behind it that share its weights and
// signature, within the options. Requests for other weights are passed over,
// not delayed: the launch would have been before theirs anyway. Those that
// could join stay in their order, so that the first that does not fit ends the
// batch. Nothing for an empty queue.
std::vector<int64_t> NextBatch(absl::Span<const WaitingRequest> queue,
                               const BatchingOptions& options);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_BATCHING_POLICY_H_
