// SPDX-License-Identifier: Apache-2.0
//
// A file has its name once all of it is on the disk. Removing one that is being
// read takes its name alone.

#include "server/storage/image_files.h"

#include <algorithm>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr absl::string_view kMagic = "QGEMMIMG";
constexpr uint32_t kVersion = 1;
constexpr int64_t kCrcBytes = sizeof(uint32_t);
// Bytes of one write: a copy of so many holds up no other on its way to or from
// the device.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

absl::string_view AsText(const Sha256Digest& digest) {
  return absl::string_view(reinterpret_cast<const char*>(digest.data()),
                           digest.size());
}

ByteBudgetOptions ToBudgetOptions(const ImageFilesOptions& options) {
  ByteBudgetOptions budget;
  budget.name = "images of layers";
  budget.limit_bytes = options.max_bytes;
  budget.advice = "raise --state_image_bytes";
  return budget;
}

}  // namespace

std::optional<std::string> EncodeImageHeader(const ImageHeader& header) {
  std::string bytes(kMagic);
  AppendInteger<uint32_t>(kVersion, &bytes);
  absl::StrAppend(&bytes, AsText(header.layout_key));
  AppendInteger<int64_t>(header.image.size_bytes, &bytes);
  AppendInteger<uint64_t>(header.image.checksum, &bytes);
  AppendText(header.id, &bytes);
  AppendText(header.image.detail, &bytes);
  if (bytes.size() > kImageHeaderBytes - kCrcBytes) return std::nullopt;
  bytes.resize(kImageHeaderBytes - kCrcBytes);
  AppendInteger<uint32_t>(Crc32c(bytes), &bytes);
  return bytes;
}

std::optional<ImageHeader> DecodeImageHeader(absl::string_view bytes) {
  if (bytes.size() != kImageHeaderBytes) return std::nullopt;
  FieldReader reader(bytes.substr(kMagic.size() + sizeof(kVersion)));
  ImageHeader header;
  const absl::string_view key = reader.ReadBytes(header.layout_key.size());
  std::copy(key.begin(), key.end(), header.layout_key.begin());
  header.image.size_bytes = reader.Read<int64_t>();
  header.image.checksum = reader.Read<uint64_t>();
  header.id = reader.ReadText();
  header.image.detail = reader.ReadText();
  // One that another program has written, or nobody, is not written the same.
  if (!reader.ok() || EncodeImageHeader(header) != bytes) return std::nullopt;
  return header;
}

absl::Status ImageFiles::Reader::ReadAt(int64_t offset,
                                        absl::Span<uint8_t> bytes) const {
  ASSIGN_OR_RETURN(
      const int64_t read,
      file_->ReadAt(
          kImageHeaderBytes + offset,
          absl::MakeSpan(reinterpret_cast<char*>(bytes.data()), bytes.size())));
  if (read == static_cast<int64_t>(bytes.size())) return absl::OkStatus();
  return absl::DataLossError("the image's file is too short");
}

std::string ImageFiles::PathOf(const std::string& id) {
  return absl::StrCat(kFolder, "/", id, kSuffix);
}

ImageFiles::ImageFiles(FileSystem* files, const ImageFilesOptions& options)
    : files_(files), options_(options), budget_(ToBudgetOptions(options)) {}

absl::StatusOr<std::unique_ptr<ImageFiles>> ImageFiles::Open(
    FileSystem* files, const ImageFilesOptions& options,
    absl::FunctionRef<bool(const std::string& id)> is_held) {
  const std::string folder(kFolder);
  RETURN_IF_ERROR(files->MakeFolder(folder));
  auto images = absl::WrapUnique(new ImageFiles(files, options));
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found, files->List(folder));
  for (const FolderEntry& file : found) {
    absl::string_view id = file.name;
    const bool is_temporary = absl::StartsWith(file.name, kTemporaryPrefix);
    if (file.is_folder ||
        !(absl::ConsumeSuffix(&id, kSuffix) || is_temporary)) {
      continue;  // not ours
    }
    const std::string layer(id);
    if (!is_temporary && is_held(layer) &&
        images->Adopt(layer, file.size_bytes)) {
      continue;
    }
    RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/", file.name)));
  }
  return images;
}

bool ImageFiles::Adopt(const std::string& id, int64_t file_bytes) {
  if (options_.layout_key.has_value() && !Read(id).ok()) return false;
  absl::StatusOr<ByteReservation> reserved = budget_.Reserve(file_bytes);
  if (!reserved.ok()) return false;
  MutexLock lock(&mutex_);
  entries_[id] = *std::move(reserved);
  return true;
}

absl::Status ImageFiles::Write(const std::string& id, const LayerImage& image,
                               CopyBytes copy) {
  const std::optional<std::string> header = EncodeImageHeader(
      {options_.layout_key.value_or(Sha256Digest()), id, image});
  if (!header.has_value()) {
    return absl::InvalidArgumentError("the layer's detail has no room");
  }
  const int64_t file_bytes = kImageHeaderBytes + image.size_bytes;
  ASSIGN_OR_RETURN(ByteReservation reservation, budget_.Reserve(file_bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                   files_->CreateUnnamed(std::string(kFolder)));
  RETURN_IF_ERROR(file->Allocate(file_bytes));
  RETURN_IF_ERROR(file->WriteAt(0, *header));
  std::string piece;
  for (int64_t at = 0; at < image.size_bytes; at += kPieceBytes) {
    piece.resize(std::min(kPieceBytes, image.size_bytes - at));
    RETURN_IF_ERROR(
        copy(at, absl::MakeSpan(reinterpret_cast<uint8_t*>(piece.data()),
                                piece.size())));
    RETURN_IF_ERROR(file->WriteAt(kImageHeaderBytes + at, piece));
    file->StartWriteback(kImageHeaderBytes + at, piece.size());
  }
  RETURN_IF_ERROR(file->Sync());
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(files_->Publish(file.get(), PathOf(id)));
  entries_[id] = std::move(reservation);
  return files_->SyncFolder(std::string(kFolder));
}

absl::StatusOr<ImageFiles::Reader> ImageFiles::Read(
    const std::string& id) const {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->OpenToRead(PathOf(id)));
  std::string bytes(kImageHeaderBytes, '\0');
  ASSIGN_OR_RETURN(const int64_t read, file->ReadAt(0, absl::MakeSpan(bytes)));
  ASSIGN_OR_RETURN(const int64_t file_bytes, file->SizeBytes());
  bytes.resize(read);
  std::optional<ImageHeader> header = DecodeImageHeader(bytes);
  if (header.has_value() && header->id == id &&
      header->layout_key == options_.layout_key &&
      header->image.size_bytes == file_bytes - kImageHeaderBytes) {
    return Reader(std::move(file), std::move(header->image));
  }
  return absl::DataLossError("the image is damaged, or of another program");
}

void ImageFiles::Remove(const std::string& id) {
  MutexLock lock(&mutex_);
  if (entries_.erase(id) == 0) return;
  const absl::Status removed = files_->Remove(PathOf(id));
  // The next opening removes it.
  if (!removed.ok()) LOG(WARNING) << "state directory: " << removed.message();
}

bool ImageFiles::Has(const std::string& id) const {
  MutexLock lock(&mutex_);
  return entries_.count(id) != 0;
}

int64_t ImageFiles::file_count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace qgemm
