// SPDX-License-Identifier: Apache-2.0
//
// One upload from its header to its commit: checks order and checksums,
// hashes, decodes into the backend's builder. Knows nothing of gRPC.

#ifndef QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_
#define QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct UploadHeader {
  std::string name;  // may be empty
  WeightsSpec spec;
  std::optional<int64_t> total_bytes;  // of all sections; if set, is checked
  std::optional<Sha256Digest> expected_id;
};

struct UploadChunk {
  Section section;
  int64_t offset = 0;
  std::optional<uint32_t> crc32c;  // of bytes; if set, is checked
  absl::string_view bytes;         // borrowed for the call
};

struct UploadResult {
  std::shared_ptr<const StoredWeights> weights;
  bool deduplicated = false;
  int64_t flushed_blocks = 0;
};

// Used by one thread at a time. Dropping it before Finish releases all it
// took; nothing was ever visible.
class UploadSession {
 public:
  // Checks name, spec and byte count, reserves the budget. If the expected id
  // is held already, the session starts finished: deduplicated() says so.
  // Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED.
  static absl::StatusOr<std::unique_ptr<UploadSession>> Start(
      const UploadHeader& header, const WeightsLimits& limits, Backend* backend,
      WeightStore* store);

  virtual ~UploadSession() = default;

  // Set if the server held these bytes already; Append and Finish are not to
  // be called then.
  virtual const std::optional<UploadResult>& deduplicated() const = 0;

  // Errors: DATA_LOSS (checksum), ABORTED (a section or offset other than the
  // next), INVALID_ARGUMENT (bytes beyond the section, illegal codes).
  virtual absl::Status Append(const UploadChunk& chunk) = 0;

  // Commits. INVALID_ARGUMENT if bytes are missing, DATA_LOSS if the hash is
  // not the expected one.
  virtual absl::StatusOr<UploadResult> Finish() = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_
