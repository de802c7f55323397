// SPDX-License-Identifier: Apache-2.0
//
// One load over all its attempts: hashes the stream, sends header and chunks,
// reads the answer, which may come before the chunks are sent.

#ifndef QGEMM_CLIENT_UPLOAD_H_
#define QGEMM_CLIENT_UPLOAD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/call_engine.h"
#include "qgemm/weights.h"

namespace qgemm {

// Blocks until the load has ended. `max_message_bytes` bounds the chunks.
absl::StatusOr<LoadResult> Upload(CallEngine* engine,
                                  const WeightsStream& stream,
                                  const LoadOptions& options,
                                  int64_t max_message_bytes);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_UPLOAD_H_
