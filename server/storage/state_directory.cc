// SPDX-License-Identifier: Apache-2.0
//
// A layer's file is on the disk before the log says that a name holds it, and
// goes after the log has said that none does: a crash in between leaves a file
// that nothing holds, which the next opening removes.

#include "server/storage/state_directory.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr char kVersionFile[] = "version";
constexpr absl::string_view kVersionText = "qgemm state directory, version ";
constexpr int kVersion = 1;

std::string DamagedPathOf(absl::string_view name) {
  return absl::StrCat(StateDirectory::kDamaged, "/", name);
}

ByteBudgetOptions ToBudgetOptions(const StateDirectoryOptions& options) {
  ByteBudgetOptions budget;
  budget.name = "state directory";
  if (options.max_bytes > 0) budget.limit_bytes = options.max_bytes;
  budget.advice = "unload weights or raise --state_bytes";
  return budget;
}

}  // namespace

StateDirectory::FileHold& StateDirectory::FileHold::operator=(
    FileHold&& other) noexcept {
  Release();
  directory_ = std::exchange(other.directory_, nullptr);
  id_ = std::move(other.id_);
  return *this;
}

void StateDirectory::FileHold::Release() {
  if (directory_ != nullptr) {
    std::exchange(directory_, nullptr)->ReleaseHold(id_);
  }
}

std::string StateDirectory::PathOf(const std::string& id) {
  return absl::StrCat(kLayers, "/", id, kSuffix);
}

StateDirectory::StateDirectory(FileSystem* files,
                               const StateDirectoryOptions& options)
    : files_(files), options_(options), budget_(ToBudgetOptions(options)) {}

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(
    FileSystem* files, const StateDirectoryOptions& options) {
  auto directory =
      std::unique_ptr<StateDirectory>(new StateDirectory(files, options));
  ASSIGN_OR_RETURN(directory->lock_, files->Lock(std::string(kLock)));
  const absl::Status version = CheckVersion(files);
  RETURN_IF_ERROR(absl::IsNotFound(version) ? directory->WriteVersion()
                                            : version);
  RETURN_IF_ERROR(directory->Recover());
  return directory;
}

absl::Status StateDirectory::WriteVersion() {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> made,
                   files_->CreateUnnamed("."));
  RETURN_IF_ERROR(made->WriteAt(0, absl::StrCat(kVersionText, kVersion, "\n")));
  RETURN_IF_ERROR(made->Sync());
  RETURN_IF_ERROR(files_->Publish(made.get(), kVersionFile));
  return files_->SyncFolder(".");
}

absl::Status StateDirectory::CheckVersion(FileSystem* files) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                   files->OpenToRead(kVersionFile));
  std::string text(128, '\0');
  ASSIGN_OR_RETURN(const int64_t bytes, file->ReadAt(0, absl::MakeSpan(text)));
  text.resize(bytes);
  absl::string_view version = text;
  int number = 0;
  if (!absl::ConsumePrefix(&version, kVersionText) ||
      !absl::SimpleAtoi(absl::StripSuffix(version, "\n"), &number)) {
    return absl::FailedPreconditionError(
        "it is no state directory of qgemm: its file \"version\" says nothing "
        "of one");
  }
  if (number == kVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it has version ", number, "; this server reads ", kVersion,
                   ". Start a server of its version, or use another folder"));
}

absl::Status StateDirectory::Recover() {
  RETURN_IF_ERROR(MakeFolders());
  RETURN_IF_ERROR(RemoveTemporaries("."));
  RETURN_IF_ERROR(RemoveTemporaries(std::string(kLayers)));
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(
        log_, NamesLog::Open(files_, std::string(kLog), DamagedPathOf(kLog)));
    recovery_.log_was_damaged = log_->was_damaged();
  }
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found,
                   files_->List(std::string(kLayers)));
  for (const FolderEntry& file : found) RETURN_IF_ERROR(Adopt(file));
  RETURN_IF_ERROR(AdoptParts());
  if (recovery_.log_was_damaged) RETURN_IF_ERROR(ReplaceDamagedLog());
  RETURN_IF_ERROR(DropLost());
  ASSIGN_OR_RETURN(images_, ImageFiles::Open(files_, options_.images,
                                             [this](const std::string& id) {
                                               return Has(id);
                                             }));
  return files_->SyncFolder(".");
}

absl::Status StateDirectory::MakeFolders() {
  RETURN_IF_ERROR(files_->MakeFolder(std::string(kLayers)));
  RETURN_IF_ERROR(files_->MakeFolder(std::string(kUploads)));
  RETURN_IF_ERROR(files_->MakeFolder(std::string(kDamaged)));
  return files_->SyncFolder(".");
}

absl::Status StateDirectory::RemoveTemporaries(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found, files_->List(folder));
  for (const FolderEntry& file : found) {
    if (file.is_folder || !absl::StartsWith(file.name, kTemporaryPrefix)) {
      continue;
    }
    RETURN_IF_ERROR(files_->Remove(absl::StrCat(folder, "/", file.name)));
  }
  return absl::OkStatus();
}

absl::Status StateDirectory::Adopt(const FolderEntry& file) {
  MutexLock lock(&mutex_);
  absl::string_view id_text = file.name;
  if (file.is_folder || !absl::ConsumeSuffix(&id_text, kSuffix)) {
    return absl::OkStatus();  // not ours
  }
  const std::string id(id_text);
  if (!log_->table().Holds(id)) {
    // A damaged log may have lost its names: nothing is destroyed then.
    if (recovery_.log_was_damaged) {
      ++recovery_.damaged_files;
      return SetAsideFile(id);
    }
    ++recovery_.removed_files;
    return files_->Remove(PathOf(id));
  }
  const absl::StatusOr<WeightsFileReader> reader = Read(id);
  if (absl::IsDataLoss(reader.status())) {
    ++recovery_.damaged_files;
    return SetAsideFile(id);
  }
  RETURN_IF_ERROR(reader.status());
  absl::StatusOr<ByteReservation> reserved = budget_.Reserve(file.size_bytes);
  if (!reserved.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has more bytes than --state_bytes = ", options_.max_bytes,
        " allows; raise that"));
  }
  Entry& entry = entries_[id];
  entry.is_there = true;
  entry.spec = reader->header().spec;
  entry.reservation = *std::move(reserved);
  return absl::OkStatus();
}

absl::Status StateDirectory::ReplaceDamagedLog() {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(files_->SyncFolder(std::string(kDamaged)));
  RETURN_IF_ERROR(files_->SyncFolder(std::string(kLayers)));
  return log_->Compact();
}

absl::Status StateDirectory::DropLost() {
  MutexLock lock(&mutex_);
  for (NameChange& change : log_->table().Changes()) {
    if (entries_.count(change.id) != 0) continue;
    change.kind = change.kind == NameChange::Kind::kBind
                      ? NameChange::Kind::kDrop
                      : NameChange::Kind::kRelease;
    recovery_.lost.push_back(std::move(change));
  }
  return log_->Append(recovery_.lost);
}

NameTable StateDirectory::table() const {
  MutexLock lock(&mutex_);
  return log_->table();
}

std::vector<StoredLayer> StateDirectory::layers() const {
  MutexLock lock(&mutex_);
  std::vector<StoredLayer> layers;
  for (const auto& [id, entry] : entries_) {
    if (entry.is_there) layers.push_back({id, entry.spec});
  }
  return layers;
}

absl::StatusOr<StateDirectory::FileHold> StateDirectory::Keep(
    std::unique_ptr<Upload> upload, const Sha256Digest& id) {
  RETURN_IF_ERROR(upload->writer_.Finish(id));
  FileHold hold;
  hold.directory_ = this;
  hold.id_ = ToHex(id);
  MutexLock lock(&mutex_);
  Entry& entry = entries_[hold.id_];
  ++entry.holds;
  absl::Status kept =
      upload->part_path_.empty()
          ? files_->Publish(upload->writer_.file(), PathOf(hold.id_))
          : files_->Rename(upload->part_path_, PathOf(hold.id_));
  if (kept.ok()) {
    upload->part_path_.clear();
    entry.is_there = true;
    entry.spec = upload->writer_.spec();
    entry.reservation = std::move(upload->reservation_);
    kept = files_->SyncFolder(std::string(kLayers));
  }
  if (kept.ok()) return hold;
  std::exchange(hold.directory_, nullptr);
  --entry.holds;
  RemoveUnheld(hold.id_);
  return kept;
}

absl::Status StateDirectory::Append(std::vector<NameChange> changes) {
  MutexLock lock(&mutex_);
  std::set<std::string> touched;
  for (const NameChange& change : changes) {
    if (!change.id.empty()) touched.insert(change.id);
    const auto bound = log_->table().names().find(change.name);
    if (bound != log_->table().names().end()) touched.insert(bound->second.id);
  }
  RETURN_IF_ERROR(log_->Append(std::move(changes)));
  touched.merge(postponed_);
  postponed_.clear();
  for (const std::string& id : touched) RemoveUnheld(id);
  return absl::OkStatus();
}

absl::StatusOr<WeightsFileReader> StateDirectory::Read(
    const std::string& id) const {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->OpenToRead(PathOf(id)));
  ASSIGN_OR_RETURN(WeightsFileReader reader,
                   WeightsFileReader::Open(std::move(file)));
  if (ToHex(reader.header().id) == id) return reader;
  return absl::DataLossError(absl::StrCat(
      "the layer's file is damaged: it is of ", ToHex(reader.header().id)));
}

void StateDirectory::SetAside(const std::string& id) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.is_there) return;
  // An upload may have put a sound one in its place meanwhile.
  const absl::StatusOr<WeightsFileReader> reader = Read(id);
  if (reader.ok() && reader->Verify().ok()) return;
  static_cast<void>(SetAsideFile(id));
  found->second.is_there = false;
  found->second.reservation.Release();
  if (found->second.holds == 0) entries_.erase(found);
}

absl::Status StateDirectory::SetAsideFile(const std::string& id) {
  const absl::Status moved =
      files_->Rename(PathOf(id), DamagedPathOf(absl::StrCat(id, kSuffix)));
  EVENT(ERROR, "state_file_damaged")
      .With("id", id)
      .With("set_aside", moved.ok());
  return moved;
}

bool StateDirectory::Has(const std::string& id) const {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.is_there;
}

int64_t StateDirectory::file_count() const {
  MutexLock lock(&mutex_);
  int64_t count = 0;
  for (const auto& [unused, entry] : entries_) count += entry.is_there ? 1 : 0;
  return count;
}

void StateDirectory::RemoveUnheld(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.holds > 0 ||
      log_->table().Holds(id)) {
    return;
  }
  if (log_->is_doubtful()) {
    // A name that the next process reads may stand for it.
    postponed_.insert(id);
    return;
  }
  if (found->second.is_there) {
    const absl::Status removed = files_->Remove(PathOf(id));
    // The next opening removes it.
    if (!removed.ok()) LOG(WARNING) << "state directory: " << removed.message();
  }
  entries_.erase(found);
  images_->Remove(id);
}

void StateDirectory::ReleaseHold(const std::string& id) {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  --found->second.holds;
  RemoveUnheld(id);
}

}  // namespace qgemm
