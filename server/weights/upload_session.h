// SPDX-License-Identifier: Apache-2.0
//
// One upload from its header to its commit: checks order and checksums, hashes,
// and decodes into the backend's builder. Independent of gRPC. Uploads that
// wait to be continued are in upload_table.h.

#ifndef QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_
#define QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "base/sha256.h"
#include "kernels/formats/weights_decoder.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/weights/name_binding.h"
#include "server/weights/side_thread.h"
#include "server/weights/weight_store.h"

namespace qgemm {

struct UploadHeader {
  NameBinding binding;
  WeightsSpec spec;
  std::optional<int64_t> total_bytes;  // checked against the spec if given
  std::optional<Sha256Digest> expected_id;
  // It can be continued if it is cut off; its id is known then.
  bool may_continue = false;
  // It continues one that was cut off: its first chunk begins so many bytes
  // behind the first of all sections, of which the server has as many or more.
  std::optional<int64_t> resume_bytes;
};

struct UploadChunk {
  Section section;
  int64_t offset = 0;
  std::optional<uint32_t> crc32c;  // checked against the bytes if given
  absl::string_view bytes;         // borrowed for the call
};

struct UploadResult {
  std::shared_ptr<const Weights> weights;
  // The server had them already, and the client saw them.
  bool deduplicated = false;
  int64_t flushed_blocks = 0;
};

// Outcome of a Start that needs no upload: the server holds these bytes
// already, and the client may read them.
struct Deduplicated {
  UploadResult result;
};

// Position of an upload: the next byte that it must send.
class UploadCursor {
 public:
  explicit UploadCursor(const WeightsSpec& spec);

  // Returns OK if the chunk is the next one and fits its section. Errors:
  // ABORTED (a section or offset other than the next), INVALID_ARGUMENT (bytes
  // beyond the section).
  absl::Status Check(const UploadChunk& chunk) const;
  // Over the ends of sections too, but not of the last.
  void Advance(int64_t bytes);

  bool done() const { return index_ == sections_.size(); }
  int64_t received_bytes() const { return received_; }
  // Describes the next byte in messages.
  std::string Next() const;

 private:
  // True if the upload is complete and the chunk would lengthen it.
  bool IsBeyondLastByte(const UploadChunk& chunk) const;
  void SkipFullSections();

  std::vector<SectionSize> sections_;
  size_t index_ = 0;
  int64_t offset_ = 0;
  int64_t received_ = 0;
};

// Used by one thread at a time. Dropping it before Finish releases all that it
// took; nothing is visible before Finish.
class UploadSession {
 public:
  using Started = std::variant<Deduplicated, std::unique_ptr<UploadSession>>;

  // Checks name, spec and byte count, and reserves the budget for all that the
  // upload will take, its decoder's memory included, unless the caller sees
  // that the expected id is held already. `caller`, the client that uploads,
  // `backend` and `store` must outlive the session. Errors: INVALID_ARGUMENT,
  // RESOURCE_EXHAUSTED, UNIMPLEMENTED, and those of WeightStore::Commit.
  static absl::StatusOr<Started> Start(const Principal* caller,
                                       const UploadHeader& header,
                                       const WeightsLimits& limits,
                                       Backend* backend, WeightStore* store);

  UploadSession(const UploadSession&) = delete;
  UploadSession& operator=(const UploadSession&) = delete;

  // Appends the next chunk. The first error stays: nothing after it can be
  // decoded. Errors: DATA_LOSS (checksum), ABORTED (a section or offset other
  // than the next), INVALID_ARGUMENT (bytes beyond the section, invalid codes).
  absl::Status Append(const UploadChunk& chunk);

  // Commits, if `check` is OK when the layer is built, which may take its time.
  // Errors: INVALID_ARGUMENT if bytes are missing, DATA_LOSS if the hash is not
  // the expected one, those of `check` and of WeightStore::Commit.
  absl::StatusOr<UploadResult> Finish(
      absl::FunctionRef<absl::Status()> check = absl::OkStatus);

  // Goes on with an upload that was cut off, for the same client, by another
  // header: chunks come from its resume_bytes on, or from the first byte, and
  // what the session has is passed over. Errors: INVALID_ARGUMENT (another
  // spec), ABORTED (resume_bytes is more than there is), those of CheckCommit.
  absl::Status Continue(const Principal* caller, const UploadHeader& header,
                        const WeightsLimits& limits);

  // True if Continue may come: it may, and nothing has failed.
  bool can_continue() const { return header_.may_continue && state_.ok(); }
  // Bytes of all sections that it has.
  int64_t received_bytes() const { return received_bytes_; }
  // Its bytes on the disk, if there are any, wait for the next process.
  void Leave();

 private:
  // Memory that the upload takes, and its file.
  struct Taken {
    ByteReservation reservation;
    OwnerAccounts::Charge charge;                  // to the client
    std::unique_ptr<StateDirectory::Upload> file;  // null: it has none
  };

  static absl::StatusOr<Taken> Take(const Principal* caller,
                                    const WeightsSpec& spec,
                                    const Backend& backend, WeightStore* store);
  // Takes the file of the upload, which may have bytes of a process before this
  // one, and those bytes.
  absl::Status TakeFile();
  // The bytes of a process before this one wait again for their client.
  void PutBackFile();
  // Chunks come from the header's resume_bytes on. Errors: ABORTED.
  absl::Status Reposition();

  UploadSession(const Principal* caller, const UploadHeader& header,
                WeightStore* store, Taken taken,
                std::unique_ptr<WeightsBuilder> builder);

  absl::Status AppendNext(const UploadChunk& chunk);
  // Hashes and decodes bytes that follow on those received.
  absl::Status Consume(Section section, absl::Span<const uint8_t> bytes);
  absl::Status MissingBytes() const;
  absl::StatusOr<UploadResult> Commit(
      const Sha256Digest& digest,
      std::shared_ptr<const ResidentWeights> resident,
      const DecodeReport& report);

  const Principal* caller_;
  UploadHeader header_;
  WeightStore* const store_;
  UploadCursor cursor_;  // of the client, who may send bytes again
  int64_t received_bytes_ = 0;
  Sha256 hash_;
  absl::Status state_;
  // Destroyed from the last to the first: the decoder writes into the builder,
  // whose memory is taken.
  Taken taken_;
  std::unique_ptr<WeightsBuilder> builder_;
  std::unique_ptr<WeightsDecoder> decoder_;
  SideThread side_;  // writes the file while this one decodes
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_WEIGHTS_UPLOAD_SESSION_H_
