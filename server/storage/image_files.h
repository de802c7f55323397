// SPDX-License-Identifier: Apache-2.0
//
// Images of layers (docs/storage.md#images): a cache, beside the layers' files,
// of the bytes that their backend made of them. What is damaged, or of another
// program or device, is removed.

#ifndef QGEMM_SERVER_STORAGE_IMAGE_FILES_H_
#define QGEMM_SERVER_STORAGE_IMAGE_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "kernels/matrix/layer_images.h"
#include "server/storage/file_system.h"

namespace qgemm {

struct ImageFilesOptions {
  int64_t max_bytes = 0;  // --state_image_bytes
  // The key of images that can be used. Null: nobody uses any, and those of all
  // keys stay.
  std::optional<Sha256Digest> layout_key;
};

// The bytes of a file before those of the layer.
inline constexpr int64_t kImageHeaderBytes = 4096;

struct ImageHeader {
  Sha256Digest layout_key = {};
  std::string id;  // of the layer
  LayerImage image;
};

// Bytes of a header, kImageHeaderBytes of them; nullopt if the image's detail
// has no room there.
std::optional<std::string> EncodeImageHeader(const ImageHeader& header);
// Nullopt if the bytes are nothing that EncodeImageHeader returns.
std::optional<ImageHeader> DecodeImageHeader(absl::string_view bytes);

// Thread-safe.
class ImageFiles {
 public:
  // An image that can be read. Thread-safe.
  class Reader {
   public:
    const LayerImage& image() const { return image_; }

    // Fills `bytes` with those of the layer from `offset` on. Errors: DATA_LOSS
    // (the file is shorter), File's. Whoever makes a layer of them compares
    // their checksum.
    absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;

   private:
    friend class ImageFiles;

    Reader(std::unique_ptr<File> file, LayerImage image)
        : file_(std::move(file)), image_(std::move(image)) {}

    std::unique_ptr<File> file_;
    LayerImage image_;
  };

  static constexpr absl::string_view kFolder = "images";
  static constexpr absl::string_view kSuffix = ".qgi";
  static std::string PathOf(const std::string& id);

  // Makes the folder, and removes what is of no use: images of layers that are
  // not held, of another key, damaged at first sight, or beyond the bound.
  // `files` must outlive the object. Errors: FileSystem's.
  static absl::StatusOr<std::unique_ptr<ImageFiles>> Open(
      FileSystem* files, const ImageFilesOptions& options,
      absl::FunctionRef<bool(const std::string& id)> is_held);

  // Copies bytes of the layer from that offset on.
  using CopyBytes =
      absl::FunctionRef<absl::Status(int64_t offset, absl::Span<uint8_t>)>;
  // Puts an image on the disk; on an error nothing of it is left. One at a
  // time. Errors: RESOURCE_EXHAUSTED (the bound, the disk), INVALID_ARGUMENT
  // (such an image has no file), FileSystem's, those of `copy`.
  absl::Status Write(const std::string& id, const LayerImage& image,
                     CopyBytes copy);

  // Errors: NOT_FOUND, DATA_LOSS (damaged), FileSystem's.
  absl::StatusOr<Reader> Read(const std::string& id) const;

  // Removes a layer's image, if it has one.
  void Remove(const std::string& id);

  bool Has(const std::string& id) const;
  int64_t file_count() const;
  int64_t used_bytes() const { return budget_.used_bytes(); }
  int64_t max_bytes() const { return options_.max_bytes; }

 private:
  ImageFiles(FileSystem* files, const ImageFilesOptions& options);

  // Takes note of a file of the opening; false if it is of no use.
  bool Adopt(const std::string& id, int64_t file_bytes);

  FileSystem* const files_;
  const ImageFilesOptions options_;
  ByteBudget budget_;
  mutable Mutex mutex_;
  std::map<std::string, ByteReservation> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_IMAGE_FILES_H_
