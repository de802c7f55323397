// SPDX-License-Identifier: Apache-2.0
//
// Uploads in progress. The file of one that has a key lies in a folder of its
// own and moves to the layers once it is whole and synced: nothing reads it as
// a layer before.

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/storage/state_directory.h"

namespace qgemm {
namespace {

// Neither tells whose upload it is, nor of what.
std::string PartNameOf(const UploadKey& key) {
  Sha256 hash;
  hash.Update(absl::StrCat(key.owner, "\n", ToHex(key.id)));
  return absl::StrCat(ToHex(hash.Finish()), ".qgw");
}

}  // namespace

StateDirectory::Upload::~Upload() {
  if (part_path_.empty()) return;
  const absl::Status removed = files_->Remove(part_path_);
  // The next process finds it, and removes it if nobody continues it.
  if (!removed.ok()) LOG(WARNING) << "state directory: " << removed.message();
}

std::string StateDirectory::PartPathOf(const UploadKey& key) {
  return absl::StrCat(kUploads, "/", PartNameOf(key));
}

absl::Status StateDirectory::AdoptParts() {
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found,
                   files_->List(std::string(kUploads)));
  MutexLock lock(&mutex_);
  for (const FolderEntry& file : found) {
    if (file.is_folder || !absl::EndsWith(file.name, kSuffix)) continue;
    std::string path = absl::StrCat(kUploads, "/", file.name);
    auto reserved = budget_.Reserve(file.size_bytes);
    if (reserved.ok()) {
      parts_[std::move(path)] = *std::move(reserved);
    } else {
      RETURN_IF_ERROR(files_->Remove(path));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StateDirectory::Upload>> StateDirectory::Begin(
    const WeightsSpec& spec, const UploadKey* key) {
  ASSIGN_OR_RETURN(ByteReservation reservation,
                   budget_.Reserve(WeightsFileBytes(spec)));
  if (key == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                     files_->CreateUnnamed(std::string(kLayers)));
    ASSIGN_OR_RETURN(WeightsFileWriter writer,
                     WeightsFileWriter::Create(std::move(file), spec));
    return absl::WrapUnique(new Upload(
        this, /*part_path=*/"", std::move(writer), std::move(reservation)));
  }
  const std::string path = PartPathOf(*key);
  {
    MutexLock lock(&mutex_);
    parts_.erase(path);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->OpenToWrite(path));
  absl::StatusOr<WeightsFileWriter> writer = absl::UnknownError("not begun");
  const absl::Status emptied = file->Truncate(0);
  if (emptied.ok()) {
    writer = WeightsFileWriter::CreatePart(std::move(file), {key->id, spec});
  }
  if (!writer.ok()) {
    static_cast<void>(files_->Remove(path));
    return emptied.ok() ? writer.status() : emptied;
  }
  return absl::WrapUnique(
      new Upload(this, path, *std::move(writer), std::move(reservation)));
}

absl::StatusOr<WeightsSpec> StateDirectory::FindPart(
    const UploadKey& key) const {
  const std::string path = PartPathOf(key);
  {
    MutexLock lock(&mutex_);
    if (parts_.count(path) == 0) return absl::NotFoundError(path);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->OpenToRead(path));
  const auto part = WeightsFileReader::OpenPart(std::move(file));
  // A crash may have left anything.
  if (!part.ok() || part->header().id != key.id) {
    return absl::NotFoundError(path);
  }
  return part->header().spec;
}

absl::StatusOr<std::unique_ptr<StateDirectory::Upload>>
StateDirectory::Continue(const UploadKey& key, const WeightsSpec& spec,
                         WeightsFileReader::Consume consume) {
  ASSIGN_OR_RETURN(const WeightsSpec found, FindPart(key));
  const std::string path = PartPathOf(key);
  if (CanonicalText(found) != CanonicalText(spec)) {
    return absl::NotFoundError(path);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> to_read, files_->OpenToRead(path));
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->OpenToWrite(path));
  ASSIGN_OR_RETURN(const WeightsFileReader part,
                   WeightsFileReader::OpenPart(std::move(to_read)));
  ByteReservation reservation;
  {
    MutexLock lock(&mutex_);
    const auto left = parts_.find(path);
    if (left == parts_.end()) return absl::NotFoundError(path);
    reservation = std::move(left->second);
    parts_.erase(left);
  }
  const absl::StatusOr<int64_t> bytes = part.ReadSound(consume);
  // From here on its end removes the file.
  auto upload = absl::WrapUnique(new Upload(
      this, path,
      WeightsFileWriter::ContinuePart(std::move(file), part, bytes.value_or(0)),
      std::move(reservation)));
  RETURN_IF_ERROR(bytes.status());
  RETURN_IF_ERROR(upload->reservation_.Resize(WeightsFileBytes(spec)));
  return upload;
}

void StateDirectory::PutBack(std::unique_ptr<Upload> upload) {
  MutexLock lock(&mutex_);
  parts_[std::exchange(upload->part_path_, "")] =
      std::move(upload->reservation_);
}

void StateDirectory::DropParts() {
  MutexLock lock(&mutex_);
  for (const auto& [path, unused] : parts_) {
    const absl::Status removed = files_->Remove(path);
    if (!removed.ok()) LOG(WARNING) << "state directory: " << removed.message();
  }
  parts_.clear();
}

}  // namespace qgemm
