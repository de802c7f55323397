// SPDX-License-Identifier: Apache-2.0

#include "server/storage/state_survey.h"

#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/storage/names_log.h"
#include "server/storage/state_directory.h"
#include "server/storage/weights_file.h"

namespace qgemm {
namespace {

absl::Status CheckIsState(FileSystem* files) {
  const absl::Status version = StateDirectory::CheckVersion(files);
  if (!absl::IsNotFound(version)) return version;
  return absl::FailedPreconditionError(
      "it is no state directory of qgemm: it has no file \"version\"");
}

absl::StatusOr<NamesLogContent> ReadLog(FileSystem* files) {
  absl::StatusOr<std::unique_ptr<File>> file =
      files->OpenToRead(std::string(StateDirectory::kLog));
  if (absl::IsNotFound(file.status())) return NamesLogContent();
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const int64_t size_bytes, (*file)->SizeBytes());
  std::string bytes(size_bytes, '\0');
  ASSIGN_OR_RETURN(const int64_t read,
                   (*file)->ReadAt(0, absl::MakeSpan(bytes)));
  bytes.resize(read);
  return DecodeNamesLog(bytes);
}

// Zero of a folder that is not there.
absl::StatusOr<FileCount> CountFiles(FileSystem* files,
                                     absl::string_view folder) {
  const auto found = files->List(std::string(folder));
  FileCount count;
  if (absl::IsNotFound(found.status())) return count;
  RETURN_IF_ERROR(found.status());
  for (const FolderEntry& file : *found) {
    if (file.is_folder) continue;
    ++count.files;
    count.bytes += file.size_bytes;
  }
  return count;
}

absl::StatusOr<WeightsSpec> ReadSpec(FileSystem* files, const std::string& id) {
  ASSIGN_OR_RETURN(auto file, files->OpenToRead(StateDirectory::PathOf(id)));
  ASSIGN_OR_RETURN(const WeightsFileReader reader,
                   WeightsFileReader::Open(std::move(file)));
  if (ToHex(reader.header().id) == id) return reader.header().spec;
  return absl::DataLossError(absl::StrCat(
      "the layer's file is damaged: it is of ", ToHex(reader.header().id)));
}

}  // namespace

absl::StatusOr<StateSurvey> SurveyState(FileSystem* files) {
  RETURN_IF_ERROR(CheckIsState(files));
  StateSurvey survey;
  ASSIGN_OR_RETURN(survey.lock,
                   files->Lock(std::string(StateDirectory::kLock)));
  ASSIGN_OR_RETURN(const NamesLogContent log, ReadLog(files));
  survey.log_is_damaged = log.is_damaged;
  std::map<std::string, SurveyedLayer> layers;
  for (const NameChange& change : log.table.Changes()) {
    SurveyedLayer& layer = layers[change.id];
    if (!change.name.empty()) layer.names.push_back(change.name);
  }
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found,
                   files->List(std::string(StateDirectory::kLayers)));
  for (const FolderEntry& file : found) {
    const std::string id(absl::StripSuffix(file.name, StateDirectory::kSuffix));
    const auto layer = layers.find(id);
    if (layer != layers.end()) {
      layer->second.file_bytes = file.size_bytes;
    } else if (!file.is_folder) {
      ++survey.unheld.files;
      survey.unheld.bytes += file.size_bytes;
    }
  }
  for (auto& [id, layer] : layers) {
    layer.id = id;
    absl::StatusOr<WeightsSpec> spec = ReadSpec(files, id);
    if (spec.ok()) layer.spec = *spec;
    layer.state = spec.status();
    survey.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(survey.images, CountFiles(files, ImageFiles::kFolder));
  ASSIGN_OR_RETURN(survey.uploads, CountFiles(files, StateDirectory::kUploads));
  ASSIGN_OR_RETURN(survey.damaged, CountFiles(files, StateDirectory::kDamaged));
  return survey;
}

absl::Status CleanState(FileSystem* files, SetAsideFiles set_aside) {
  RETURN_IF_ERROR(CheckIsState(files));
  StateDirectoryOptions options;
  options.images.max_bytes = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const auto directory, StateDirectory::Open(files, options));
  directory->DropParts();
  if (set_aside == SetAsideFiles::kKeep) return absl::OkStatus();
  const std::string folder(StateDirectory::kDamaged);
  ASSIGN_OR_RETURN(const std::vector<FolderEntry> found, files->List(folder));
  for (const FolderEntry& file : found) {
    if (file.is_folder) continue;
    RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/", file.name)));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
