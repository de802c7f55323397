// SPDX-License-Identifier: Apache-2.0
//
// The header of a whole file is written last: without one it was not finished.
// A part has its header first, and is no layer's file before it is whole.

#include "server/storage/weights_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/checked_math.h"
#include "base/crc32c.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr absl::string_view kMagic = "QGEMMQGW";
constexpr int64_t kChecksumBytes = sizeof(uint32_t);
constexpr int kMostSections = 6;
constexpr size_t kMostSpecBytes = 2048;
// Place of the header's own checksum, which counts as zero in it.
constexpr size_t kCrcOffset = 12;
// The disk is given work that often, so that little is left for the end.
constexpr int64_t kWritebackBytes = int64_t{8} << 20;

// The file's limits are its own: those of a server may have become narrower
// since the upload, and what was taken is kept.
WeightsLimits WidestLimits() {
  WeightsLimits limits;
  limits.max_n = limits.max_k = std::numeric_limits<int32_t>::max();
  return limits;
}

int64_t BlockCount(int64_t payload_bytes) {
  return CeilDiv(payload_bytes, kWeightsFileBlockBytes);
}

int64_t TrailerBytes(int64_t payload_bytes) {
  return (BlockCount(payload_bytes) + 1) * kChecksumBytes;
}

uint32_t HeaderCrc(absl::string_view bytes) {
  constexpr absl::string_view kZero("\0\0\0\0", kChecksumBytes);
  uint32_t crc = Crc32c(bytes.substr(0, kCrcOffset));
  crc = ExtendCrc32c(crc, kZero);
  return ExtendCrc32c(crc, bytes.substr(kCrcOffset + kChecksumBytes));
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the layer's file is damaged: ", what));
}

}  // namespace

std::string EncodeWeightsFileHeader(const WeightsFileHeader& header) {
  const std::string text = CanonicalText(header.spec);
  const std::vector<SectionSize> sections = SectionsOf(header.spec);
  const int64_t payload_bytes = TotalBytes(header.spec);
  CHECK(text.size() <= kMostSpecBytes);
  std::string bytes(kMagic);
  AppendInteger<uint32_t>(kWeightsFileVersion, &bytes);
  AppendInteger<uint32_t>(0, &bytes);  // the checksum
  bytes.append(reinterpret_cast<const char*>(header.id.data()),
               header.id.size());
  AppendInteger<uint64_t>(kWeightsFileHeaderBytes, &bytes);
  AppendInteger<uint64_t>(payload_bytes, &bytes);
  AppendInteger<uint32_t>(kWeightsFileBlockBytes, &bytes);
  AppendInteger<uint32_t>(sections.size(), &bytes);
  for (int i = 0; i < kMostSections; ++i) {
    const bool used = i < static_cast<int>(sections.size());
    AppendInteger<uint64_t>(
        used ? static_cast<uint64_t>(sections[i].section) : 0, &bytes);
    AppendInteger<uint64_t>(used ? sections[i].bytes : 0, &bytes);
  }
  AppendInteger<uint32_t>(text.size(), &bytes);
  absl::StrAppend(&bytes, text);
  bytes.resize(kWeightsFileHeaderBytes, '\0');
  const uint32_t crc = HeaderCrc(bytes);
  std::memcpy(&bytes[kCrcOffset], &crc, sizeof(crc));
  return bytes;
}

absl::StatusOr<WeightsFileHeader> DecodeWeightsFileHeader(
    absl::string_view bytes) {
  if (bytes.size() != kWeightsFileHeaderBytes) return Damaged("no header");
  FieldReader reader(bytes);
  if (reader.ReadBytes(kMagic.size()) != kMagic) return Damaged("its magic");
  const auto version = reader.Read<uint32_t>();
  if (reader.Read<uint32_t>() != HeaderCrc(bytes)) {
    return Damaged("the checksum of its header");
  }
  if (version != kWeightsFileVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the layer's file has version ", version,
                     "; this server reads ", kWeightsFileVersion));
  }
  WeightsFileHeader header;
  const absl::string_view id = reader.ReadBytes(header.id.size());
  std::copy(id.begin(), id.end(), header.id.begin());
  constexpr size_t kTextLengthOffset =
      16 + 32 + 8 + 8 + 4 + 4 + kMostSections * 16;
  FieldReader text_reader(bytes.substr(kTextLengthOffset));
  const auto text_bytes = text_reader.Read<uint32_t>();
  if (text_bytes > kMostSpecBytes) return Damaged("the length of its spec");
  const absl::StatusOr<WeightsSpec> spec =
      ParseCanonicalText(text_reader.ReadBytes(text_bytes), WidestLimits());
  if (!spec.ok()) return Damaged(spec.status().message());
  header.spec = *spec;
  // All else follows from the spec: a header that says otherwise is none.
  if (EncodeWeightsFileHeader(header) != bytes) {
    return Damaged("its header contradicts itself");
  }
  return header;
}

int64_t WeightsFileBytes(const WeightsSpec& spec) {
  const int64_t payload_bytes = TotalBytes(spec);
  return kWeightsFileHeaderBytes + payload_bytes + TrailerBytes(payload_bytes);
}

absl::StatusOr<WeightsFileWriter> WeightsFileWriter::Create(
    std::unique_ptr<File> file, const WeightsSpec& spec) {
  RETURN_IF_ERROR(file->Allocate(WeightsFileBytes(spec)));
  return WeightsFileWriter(std::move(file), spec);
}

absl::StatusOr<WeightsFileWriter> WeightsFileWriter::CreatePart(
    std::unique_ptr<File> file, const WeightsFileHeader& header) {
  ASSIGN_OR_RETURN(WeightsFileWriter writer,
                   Create(std::move(file), header.spec));
  RETURN_IF_ERROR(writer.file_->WriteAt(0, EncodeWeightsFileHeader(header)));
  writer.is_part_ = true;
  return writer;
}

WeightsFileWriter WeightsFileWriter::ContinuePart(std::unique_ptr<File> file,
                                                  const WeightsFileReader& part,
                                                  int64_t bytes) {
  WeightsFileWriter writer(std::move(file), part.header_.spec);
  writer.is_part_ = true;
  writer.appended_bytes_ = bytes;
  writer.written_back_bytes_ = bytes;
  const int64_t blocks = bytes / kWeightsFileBlockBytes;
  for (int64_t i = 0; i < blocks; ++i) {
    AppendInteger<uint32_t>(part.checksums_[i], &writer.checksums_);
  }
  // The payload's last block, which need not be a whole one.
  if (bytes % kWeightsFileBlockBytes != 0) {
    writer.block_crc32c_ = part.checksums_[blocks];
  }
  return writer;
}

absl::Status WeightsFileWriter::Append(absl::string_view bytes) {
  const size_t known_checksums = checksums_.size();
  RETURN_IF_ERROR(
      file_->WriteAt(kWeightsFileHeaderBytes + appended_bytes_, bytes));
  while (!bytes.empty()) {
    const int64_t in_block = appended_bytes_ % kWeightsFileBlockBytes;
    const absl::string_view part =
        bytes.substr(0, kWeightsFileBlockBytes - in_block);
    block_crc32c_ = ExtendCrc32c(in_block == 0 ? 0 : block_crc32c_, part);
    appended_bytes_ += static_cast<int64_t>(part.size());
    bytes.remove_prefix(part.size());
    if (appended_bytes_ % kWeightsFileBlockBytes == 0) {
      AppendInteger<uint32_t>(block_crc32c_, &checksums_);
    }
  }
  if (is_part_) RETURN_IF_ERROR(WriteChecksums(known_checksums));
  if (appended_bytes_ - written_back_bytes_ >= kWritebackBytes) {
    file_->StartWriteback(kWeightsFileHeaderBytes + written_back_bytes_,
                          appended_bytes_ - written_back_bytes_);
    written_back_bytes_ = appended_bytes_;
  }
  return absl::OkStatus();
}

absl::Status WeightsFileWriter::WriteChecksums(size_t begin) {
  if (begin == checksums_.size()) return absl::OkStatus();
  return file_->WriteAt(
      kWeightsFileHeaderBytes + TotalBytes(spec_) + static_cast<int64_t>(begin),
      absl::string_view(checksums_).substr(begin));
}

absl::Status WeightsFileWriter::Finish(const Sha256Digest& id) {
  CHECK(appended_bytes_ == TotalBytes(spec_));
  if (appended_bytes_ % kWeightsFileBlockBytes != 0) {
    AppendInteger<uint32_t>(block_crc32c_, &checksums_);
  }
  AppendInteger<uint32_t>(Crc32c(checksums_), &checksums_);
  RETURN_IF_ERROR(WriteChecksums(0));
  RETURN_IF_ERROR(file_->WriteAt(0, EncodeWeightsFileHeader({id, spec_})));
  return file_->Sync();
}

absl::StatusOr<WeightsFileReader> WeightsFileReader::OpenHeader(
    std::unique_ptr<File> file, std::string* table) {
  WeightsFileReader reader;
  std::string bytes(kWeightsFileHeaderBytes, '\0');
  ASSIGN_OR_RETURN(const int64_t header_bytes,
                   file->ReadAt(0, absl::MakeSpan(bytes)));
  bytes.resize(header_bytes);
  ASSIGN_OR_RETURN(reader.header_, DecodeWeightsFileHeader(bytes));
  ASSIGN_OR_RETURN(const int64_t size_bytes, file->SizeBytes());
  const int64_t file_bytes = WeightsFileBytes(reader.header_.spec);
  // Before there is memory for the table: a header may say anything.
  if (size_bytes > file_bytes) {
    return Damaged(absl::StrCat("it has ", size_bytes,
                                " bytes and should have ", file_bytes));
  }
  const int64_t payload_bytes = TotalBytes(reader.header_.spec);
  const int64_t table_offset = kWeightsFileHeaderBytes + payload_bytes;
  table->resize(std::max<int64_t>(size_bytes - table_offset, 0));
  ASSIGN_OR_RETURN(const int64_t table_bytes,
                   file->ReadAt(table_offset, absl::MakeSpan(*table)));
  table->resize(table_bytes);
  FieldReader fields(*table);
  const auto known = static_cast<int64_t>(table->size()) / kChecksumBytes;
  for (int64_t i = 0; i < std::min(known, BlockCount(payload_bytes)); ++i) {
    reader.checksums_.push_back(fields.Read<uint32_t>());
  }
  reader.file_ = std::move(file);
  return reader;
}

absl::StatusOr<WeightsFileReader> WeightsFileReader::Open(
    std::unique_ptr<File> file) {
  std::string table;
  ASSIGN_OR_RETURN(WeightsFileReader reader,
                   OpenHeader(std::move(file), &table));
  ASSIGN_OR_RETURN(const int64_t size_bytes, reader.file_->SizeBytes());
  if (size_bytes != WeightsFileBytes(reader.header_.spec)) {
    return Damaged(absl::StrCat("it has ", size_bytes,
                                " bytes and should have ",
                                WeightsFileBytes(reader.header_.spec)));
  }
  const absl::string_view checksums = absl::string_view(table).substr(
      0, BlockCount(TotalBytes(reader.header_.spec)) * kChecksumBytes);
  FieldReader last(absl::string_view(table).substr(checksums.size()));
  if (last.Read<uint32_t>() != Crc32c(checksums) || !last.at_end()) {
    return Damaged("its table of checksums");
  }
  return reader;
}

absl::StatusOr<WeightsFileReader> WeightsFileReader::OpenPart(
    std::unique_ptr<File> file) {
  std::string table;
  return OpenHeader(std::move(file), &table);
}

absl::Status WeightsFileReader::Read(Consume consume) const {
  const int64_t payload_bytes = TotalBytes(header_.spec);
  ASSIGN_OR_RETURN(const int64_t sound, ReadSound(consume));
  if (sound == payload_bytes) return absl::OkStatus();
  return Damaged(
      absl::StrCat("the checksum of payload bytes ", sound, " to ",
                   std::min(sound + kWeightsFileBlockBytes, payload_bytes)));
}

absl::StatusOr<int64_t> WeightsFileReader::ReadSound(Consume consume) const {
  const std::vector<SectionSize> sections = SectionsOf(header_.spec);
  const int64_t payload_bytes = TotalBytes(header_.spec);
  size_t section = 0;
  int64_t section_left = sections.empty() ? 0 : sections[0].bytes;
  std::vector<char> block(std::min(kWeightsFileBlockBytes, payload_bytes));
  int64_t offset = 0;
  for (const uint32_t checksum : checksums_) {
    const int64_t bytes =
        std::min(kWeightsFileBlockBytes, payload_bytes - offset);
    ASSIGN_OR_RETURN(const int64_t read,
                     file_->ReadAt(kWeightsFileHeaderBytes + offset,
                                   absl::MakeSpan(block.data(), bytes)));
    if (read != bytes ||
        Crc32c(absl::string_view(block.data(), bytes)) != checksum) {
      break;
    }
    int64_t begin = 0;
    while (begin < bytes) {
      const int64_t part = std::min(bytes - begin, section_left);
      RETURN_IF_ERROR(consume(
          sections[section].section,
          absl::MakeConstSpan(
              reinterpret_cast<const uint8_t*>(block.data()) + begin, part)));
      begin += part;
      section_left -= part;
      if (section_left == 0 && ++section < sections.size()) {
        section_left = sections[section].bytes;
      }
    }
    offset += bytes;
  }
  return offset;
}

absl::Status WeightsFileReader::Verify(
    absl::FunctionRef<absl::Status(int64_t bytes)> go_on) const {
  Sha256 hash;
  hash.Update(CanonicalText(header_.spec));
  RETURN_IF_ERROR(Read([&](Section, absl::Span<const uint8_t> bytes) {
    hash.Update(absl::string_view(reinterpret_cast<const char*>(bytes.data()),
                                  bytes.size()));
    return go_on(static_cast<int64_t>(bytes.size()));
  }));
  const Sha256Digest id = hash.Finish();
  if (id == header_.id) return absl::OkStatus();
  return Damaged(absl::StrCat("its hash is ", ToHex(id)));
}

}  // namespace qgemm
