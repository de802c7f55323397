// SPDX-License-Identifier: Apache-2.0
//
// A record is appended and synced before the next, so that a crash can cut off
// the last one only. What cannot be read before another record is damage.

#include "server/storage/names_log.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr absl::string_view kMagic = "QGEMMNAM";
constexpr uint32_t kVersion = 1;
constexpr int64_t kHeaderBytes = 16;  // magic, version, checksum of both
constexpr size_t kPrefixBytes = 8;    // length and checksum of a record's body
constexpr uint32_t kMostBodyBytes = uint32_t{64} << 20;
constexpr size_t kIdBytes = 32;
// Changes of a record of a log that is written anew: far from kMostBodyBytes.
constexpr size_t kRecordChanges = 4096;
// Beyond it the log is read no more: it is ours no longer.
constexpr int64_t kMostLogBytes = int64_t{1} << 30;
// A log that has grown to so many bytes, and to several times of what it had
// when it was written anew, is written anew.
constexpr int64_t kCompactBytes = int64_t{1} << 20;
constexpr int64_t kCompactFactor = 4;

void AppendName(absl::string_view text, std::string* bytes) {
  CHECK(text.size() <= std::numeric_limits<uint16_t>::max());
  AppendInteger<uint16_t>(text.size(), bytes);
  absl::StrAppend(bytes, text);
}

void AppendChange(const NameChange& change, std::string* bytes) {
  AppendInteger<uint8_t>(static_cast<uint8_t>(change.kind), bytes);
  AppendInteger<uint64_t>(change.generation, bytes);
  std::string id = absl::HexStringToBytes(change.id);
  id.resize(kIdBytes, '\0');
  bytes->append(id);
  AppendName(change.name, bytes);
  AppendName(change.owner, bytes);
}

NameChange ReadChange(FieldReader* reader) {
  NameChange change;
  change.kind = static_cast<NameChange::Kind>(reader->Read<uint8_t>());
  change.generation = reader->Read<uint64_t>();
  change.id = absl::BytesToHexString(reader->ReadBytes(kIdBytes));
  if (change.kind == NameChange::Kind::kDrop) change.id.clear();
  change.name = std::string(reader->ReadBytes(reader->Read<uint16_t>()));
  change.owner = std::string(reader->ReadBytes(reader->Read<uint16_t>()));
  return change;
}

bool IsKnown(NameChange::Kind kind) {
  return kind >= NameChange::Kind::kBind && kind <= NameChange::Kind::kRelease;
}

struct ReadRecord {
  NamesRecord record;
  size_t bytes = 0;
};

// The record at the begin of `bytes`; none if there is none that is whole and
// later than `last_sequence`.
std::optional<ReadRecord> DecodeRecord(absl::string_view bytes,
                                       uint64_t last_sequence) {
  FieldReader prefix(bytes);
  const auto body_bytes = prefix.Read<uint32_t>();
  const auto crc32c = prefix.Read<uint32_t>();
  if (!prefix.ok() || body_bytes > kMostBodyBytes) return std::nullopt;
  const absl::string_view body = prefix.ReadBytes(body_bytes);
  FieldReader reader(body);
  ReadRecord read;
  read.record.sequence = reader.Read<uint64_t>();
  const auto count = reader.Read<uint32_t>();
  // Before the checksum, which takes its time at every place of a damaged log.
  if (!prefix.ok() || !reader.ok() || read.record.sequence <= last_sequence ||
      count > body_bytes || Crc32c(body) != crc32c) {
    return std::nullopt;
  }
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    read.record.changes.push_back(ReadChange(&reader));
    if (!IsKnown(read.record.changes.back().kind)) return std::nullopt;
  }
  if (!reader.at_end()) return std::nullopt;
  read.bytes = kPrefixBytes + body_bytes;
  return read;
}

// OK if the log has a header of this version, DATA_LOSS if it has none.
absl::Status CheckHeader(absl::string_view bytes) {
  FieldReader reader(bytes);
  const absl::string_view magic = reader.ReadBytes(kMagic.size());
  const auto version = reader.Read<uint32_t>();
  const auto crc32c = reader.Read<uint32_t>();
  if (!reader.ok() || magic != kMagic ||
      crc32c != Crc32c(bytes.substr(0, kHeaderBytes - sizeof(crc32c)))) {
    return absl::DataLossError("the log of names has no header");
  }
  if (version == kVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the log of names has version ", version,
                   "; this server reads ", kVersion));
}

}  // namespace

void NameTable::Apply(const NameChange& change) {
  switch (change.kind) {
    case NameChange::Kind::kBind: {
      Bound& bound = names_[change.name];
      if (!bound.id.empty()) Unrefer(bound.id);
      bound = {change.id, change.owner, change.generation};
      Refer(change.id);
      if (holds_.erase({change.id, change.owner}) != 0) Unrefer(change.id);
      return;
    }
    case NameChange::Kind::kDrop: {
      const auto found = names_.find(change.name);
      if (found == names_.end()) return;
      Unrefer(found->second.id);
      names_.erase(found);
      return;
    }
    case NameChange::Kind::kHold:
      if (holds_.insert({change.id, change.owner}).second) Refer(change.id);
      return;
    case NameChange::Kind::kRelease:
      if (holds_.erase({change.id, change.owner}) != 0) Unrefer(change.id);
      return;
  }
}

void NameTable::Unrefer(const std::string& id) {
  const auto found = references_.find(id);
  if (--found->second == 0) references_.erase(found);
}

std::vector<NameChange> NameTable::Changes() const {
  // In this order, as a binding ends the hold of its owner.
  std::vector<NameChange> changes;
  for (const auto& [name, bound] : names_) {
    changes.push_back({NameChange::Kind::kBind, name, bound.owner, bound.id,
                       bound.generation});
  }
  for (const auto& [id, owner] : holds_) {
    changes.push_back({NameChange::Kind::kHold, "", owner, id, 0});
  }
  return changes;
}

std::string EncodeNamesHeader() {
  std::string bytes(kMagic);
  AppendInteger<uint32_t>(kVersion, &bytes);
  AppendInteger<uint32_t>(Crc32c(bytes), &bytes);
  return bytes;
}

std::string EncodeNamesRecord(const NamesRecord& record) {
  std::string body;
  AppendInteger<uint64_t>(record.sequence, &body);
  AppendInteger<uint32_t>(record.changes.size(), &body);
  for (const NameChange& change : record.changes) AppendChange(change, &body);
  std::string bytes;
  AppendInteger<uint32_t>(body.size(), &bytes);
  AppendInteger<uint32_t>(Crc32c(body), &bytes);
  return bytes + body;
}

absl::StatusOr<NamesLogContent> DecodeNamesLog(absl::string_view bytes) {
  NamesLogContent content;
  const absl::Status header = CheckHeader(bytes);
  if (absl::IsFailedPrecondition(header)) return header;
  content.is_damaged = !header.ok();
  size_t at = std::min<size_t>(kHeaderBytes, bytes.size());
  content.valid_bytes = static_cast<int64_t>(at);
  bool skipped = false;
  while (at < bytes.size()) {
    std::optional<ReadRecord> read =
        DecodeRecord(bytes.substr(at), content.last_sequence);
    if (!read.has_value()) {
      skipped = true;
      ++at;
      continue;
    }
    content.is_damaged = content.is_damaged || skipped;
    skipped = false;
    for (const NameChange& change : read->record.changes) {
      content.table.Apply(change);
    }
    content.last_sequence = read->record.sequence;
    at += read->bytes;
    content.valid_bytes = static_cast<int64_t>(at);
  }
  content.is_torn = skipped;
  return content;
}

namespace {

absl::Status WriteCopy(absl::string_view bytes, const std::string& path,
                       FileSystem* files) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> copy, files->OpenToWrite(path));
  RETURN_IF_ERROR(copy->Truncate(0));
  RETURN_IF_ERROR(copy->WriteAt(0, bytes));
  return copy->Sync();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamesLog>> NamesLog::Open(
    FileSystem* files, const std::string& path,
    const std::string& damaged_path) {
  auto log = std::unique_ptr<NamesLog>(new NamesLog(files, path));
  absl::StatusOr<std::unique_ptr<File>> file = files->OpenToRead(path);
  if (absl::IsNotFound(file.status())) {
    RETURN_IF_ERROR(log->Compact());
    return log;
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const int64_t size_bytes, (*file)->SizeBytes());
  if (size_bytes > kMostLogBytes) {
    return absl::DataLossError(absl::StrCat(
        path, " has ", size_bytes, " bytes; the most are ", kMostLogBytes));
  }
  std::string bytes(size_bytes, '\0');
  ASSIGN_OR_RETURN(const int64_t read,
                   (*file)->ReadAt(0, absl::MakeSpan(bytes)));
  bytes.resize(read);
  ASSIGN_OR_RETURN(NamesLogContent content, DecodeNamesLog(bytes));
  log->table_ = std::move(content.table);
  log->last_sequence_ = content.last_sequence;
  log->was_damaged_ = content.is_damaged;
  if (!content.is_damaged) {
    RETURN_IF_ERROR(log->Compact());
    return log;
  }
  // The damaged one keeps its name, so that whoever opens it before the next
  // Compact finds the damage too.
  RETURN_IF_ERROR(WriteCopy(bytes, damaged_path, files));
  log->is_doubtful_ = true;
  return log;
}

absl::Status NamesLog::Append(std::vector<NameChange> changes) {
  if (changes.empty()) return absl::OkStatus();
  const bool is_long = size_bytes_ > kCompactBytes &&
                       size_bytes_ > kCompactFactor * compacted_bytes_;
  if (is_doubtful_ || is_long) RETURN_IF_ERROR(Compact());
  const uint64_t sequence = last_sequence_ + 1;
  for (NameChange& change : changes) {
    if (change.generation == 0) change.generation = sequence;
  }
  NamesRecord record{sequence, std::move(changes)};
  const std::string bytes = EncodeNamesRecord(record);
  if (bytes.size() > kPrefixBytes + kMostBodyBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        record.changes.size(), " changes of names at once take ", bytes.size(),
        " bytes of the log; the most are ", kPrefixBytes + kMostBodyBytes));
  }
  absl::Status written = file_->WriteAt(size_bytes_, bytes);
  if (written.ok()) written = file_->Sync();
  if (!written.ok()) {
    is_doubtful_ = !CutOff().ok();
    return written;
  }
  last_sequence_ = sequence;
  size_bytes_ += static_cast<int64_t>(bytes.size());
  for (const NameChange& change : record.changes) table_.Apply(change);
  return absl::OkStatus();
}

absl::Status NamesLog::CutOff() {
  RETURN_IF_ERROR(file_->Truncate(size_bytes_));
  return file_->Sync();
}

absl::Status NamesLog::Compact() {
  // A record that failed may have had the next number.
  uint64_t sequence = last_sequence_ + 1;
  std::string bytes = EncodeNamesHeader();
  const std::vector<NameChange> changes = table_.Changes();
  for (size_t i = 0; i < changes.size(); i += kRecordChanges) {
    const auto begin = changes.begin() + static_cast<ptrdiff_t>(i);
    const size_t count = std::min(kRecordChanges, changes.size() - i);
    bytes += EncodeNamesRecord(
        {++sequence, {begin, begin + static_cast<ptrdiff_t>(count)}});
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, files_->CreateUnnamed("."));
  RETURN_IF_ERROR(file->WriteAt(0, bytes));
  RETURN_IF_ERROR(file->Sync());
  RETURN_IF_ERROR(files_->Publish(file.get(), path_));
  // From here on the new file is the log, on the disk or soon.
  file_ = std::move(file);
  last_sequence_ = sequence;
  size_bytes_ = compacted_bytes_ = static_cast<int64_t>(bytes.size());
  is_doubtful_ = true;
  RETURN_IF_ERROR(files_->SyncFolder("."));
  is_doubtful_ = false;
  return absl::OkStatus();
}

}  // namespace qgemm
