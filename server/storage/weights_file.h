// SPDX-License-Identifier: Apache-2.0
//
// The file of one layer (docs/storage.md#layer-files): the bytes of its upload,
// as they came, between a header that describes them and a table of checksums.
// Its id is the hash of what it holds.

#ifndef QGEMM_SERVER_STORAGE_WEIGHTS_FILE_H_
#define QGEMM_SERVER_STORAGE_WEIGHTS_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sha256.h"
#include "kernels/formats/weights_spec.h"
#include "server/storage/file_system.h"

namespace qgemm {

inline constexpr uint32_t kWeightsFileVersion = 1;
// Bytes of the header; the payload begins behind it.
inline constexpr int64_t kWeightsFileHeaderBytes = 4096;
// Payload bytes of one checksum.
inline constexpr int64_t kWeightsFileBlockBytes = int64_t{1} << 20;

// A header's fields.
struct WeightsFileHeader {
  Sha256Digest id = {};
  WeightsSpec spec;
};

// Bytes of a header, kWeightsFileHeaderBytes of them.
std::string EncodeWeightsFileHeader(const WeightsFileHeader& header);

// Errors: DATA_LOSS if the bytes are no header that EncodeWeightsFileHeader
// makes; FAILED_PRECONDITION if they are of a newer version.
absl::StatusOr<WeightsFileHeader> DecodeWeightsFileHeader(
    absl::string_view bytes);

// Bytes of the whole file of a valid spec.
int64_t WeightsFileBytes(const WeightsSpec& spec);

class WeightsFileReader;

// Writes a file while its upload comes. Not thread-safe.
class WeightsFileWriter {
 public:
  // Takes the disk's space for the whole. Errors: File's.
  static absl::StatusOr<WeightsFileWriter> Create(std::unique_ptr<File> file,
                                                  const WeightsSpec& spec);

  // The same for a file that can be continued after a crash: it has its header
  // from the start, and each block's checksum as soon as the block is whole.
  static absl::StatusOr<WeightsFileWriter> CreatePart(
      std::unique_ptr<File> file, const WeightsFileHeader& header);
  // Continues such a file behind its first `bytes`, which ReadSound of `part`
  // returned.
  static WeightsFileWriter ContinuePart(std::unique_ptr<File> file,
                                        const WeightsFileReader& part,
                                        int64_t bytes);

  // Appends the next bytes of the payload: sections in their order. Errors:
  // File's; nothing can be appended after one.
  absl::Status Append(absl::string_view bytes);

  // Writes the rest once the whole payload was appended, and syncs. Errors:
  // File's.
  absl::Status Finish(const Sha256Digest& id);

  File* file() const { return file_.get(); }
  const WeightsSpec& spec() const { return spec_; }

 private:
  WeightsFileWriter(std::unique_ptr<File> file, const WeightsSpec& spec)
      : file_(std::move(file)), spec_(spec) {}

  // Writes the checksums from that byte of their table on.
  absl::Status WriteChecksums(size_t begin);

  std::unique_ptr<File> file_;
  WeightsSpec spec_;
  bool is_part_ = false;
  int64_t appended_bytes_ = 0;
  int64_t written_back_bytes_ = 0;
  uint32_t block_crc32c_ = 0;
  std::string checksums_;  // of the blocks that are whole
};

// Reads a file. Thread-safe but for Read.
class WeightsFileReader {
 public:
  // Reads and checks the header and the table of checksums. Errors: DATA_LOSS
  // (damaged), FAILED_PRECONDITION (of a newer version), File's.
  static absl::StatusOr<WeightsFileReader> Open(std::unique_ptr<File> file);

  // The same of a file that CreatePart began, however far it came.
  static absl::StatusOr<WeightsFileReader> OpenPart(std::unique_ptr<File> file);

  const WeightsFileHeader& header() const { return header_; }

  using Consume = absl::FunctionRef<absl::Status(
      Section section, absl::Span<const uint8_t> bytes)>;

  // Hands over the payload, section by section, each block once its checksum
  // was found right. Errors: DATA_LOSS (a checksum is wrong; all blocks before
  // it were handed over), File's, those of `consume`.
  absl::Status Read(Consume consume) const;

  // The same up to the first block whose checksum is wrong; returns the bytes
  // that were handed over.
  absl::StatusOr<int64_t> ReadSound(Consume consume) const;

  // Reads all and compares the hash to the id. Errors: Read's, DATA_LOSS, those
  // of `go_on`, which is asked with the bytes of each piece that was hashed.
  absl::Status Verify(absl::FunctionRef<absl::Status(int64_t bytes)> go_on =
                          [](int64_t) { return absl::OkStatus(); }) const;

 private:
  friend class WeightsFileWriter;

  WeightsFileReader() = default;

  // Reads header and table, and checks the header.
  static absl::StatusOr<WeightsFileReader> OpenHeader(
      std::unique_ptr<File> file, std::string* table);

  std::unique_ptr<File> file_;
  WeightsFileHeader header_;
  std::vector<uint32_t> checksums_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_WEIGHTS_FILE_H_
