// SPDX-License-Identifier: Apache-2.0
//
// One load over all its attempts: sends header and chunks, reads the answer,
// which may come before the chunks are sent.

#ifndef QGEMM_CLIENT_UPLOAD_H_
#define QGEMM_CLIENT_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sha256.h"
#include "client/call_engine.h"
#include "qgemm/weights.h"

namespace qgemm {

// OK, or INVALID_ARGUMENT: the stream or the options are not as they should be
// for a client whose messages have at most `max_message_bytes`.
absl::Status CheckUpload(const WeightsStream& stream,
                         const LoadOptions& options, int64_t max_message_bytes);

// Loads to one server, and blocks until that has ended. `id` is the stream's;
// nullopt if it cannot be read twice.
absl::StatusOr<LoadResult> Upload(CallEngine* engine, size_t server,
                                  const WeightsStream& stream,
                                  const std::optional<Sha256Digest>& id,
                                  const LoadOptions& options);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_UPLOAD_H_
