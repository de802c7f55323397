// SPDX-License-Identifier: Apache-2.0
//
// One load to several servers over all its attempts: sends header and chunks,
// reads the answers, which may come before the chunks are sent.

#ifndef QGEMM_CLIENT_UPLOAD_H_
#define QGEMM_CLIENT_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

// Loads to the servers 0 to `servers` - 1, up to 16 at a time, and blocks until
// that has ended at all of them. Returns each server's end, or the error of the
// stream, which is read by this thread, once for all servers but those that
// take it later than others: by a retry, or because they are too slow. `id` is
// the stream's; nullopt if it cannot be read twice, which one server alone
// permits.
absl::StatusOr<std::vector<absl::StatusOr<LoadResult>>> Upload(
    CallEngine* engine, size_t servers, const WeightsStream& stream,
    const std::optional<Sha256Digest>& id, const LoadOptions& options);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_UPLOAD_H_
