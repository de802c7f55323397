// SPDX-License-Identifier: Apache-2.0

#include "server/keep/manifest.h"

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/crc32c.h"

namespace qgemm {
namespace {

constexpr absl::string_view kMagic = "QGEMMKPT";

// Fields of a record, behind its state and its checksum.
constexpr size_t kFieldsOffset = sizeof(uint64_t) + sizeof(uint32_t);

absl::string_view AsText(const KeptDevice& device) {
  return absl::string_view(reinterpret_cast<const char*>(device.uuid.data()),
                           device.uuid.size());
}

absl::string_view AsText(const Sha256Digest& digest) {
  return absl::string_view(reinterpret_cast<const char*>(digest.data()),
                           digest.size());
}

}  // namespace

std::string EncodeManifestHeader(const ManifestHeader& header) {
  std::string fields;
  AppendInteger<uint32_t>(header.device.driver_version, &fields);
  absl::StrAppend(&fields, AsText(header.device), AsText(header.layout_key));
  std::string slot(kMagic);
  AppendInteger<uint32_t>(kManifestVersion, &slot);
  AppendInteger<uint32_t>(Crc32c(fields), &slot);
  slot += fields;
  slot.resize(kManifestSlotBytes);
  return slot;
}

std::string DifferenceOf(absl::string_view slot,
                         const ManifestHeader& expected) {
  const std::string wanted = EncodeManifestHeader(expected);
  if (slot == wanted) return "";
  FieldReader reader(slot);
  if (reader.ReadBytes(kMagic.size()) != kMagic) return "no manifest";
  if (reader.Read<uint32_t>() != kManifestVersion) return "version";
  const uint32_t crc32c = reader.Read<uint32_t>();
  const size_t fields_bytes =
      sizeof(uint32_t) + sizeof(KeptDevice::uuid) + sizeof(Sha256Digest);
  const absl::string_view fields = reader.ReadBytes(fields_bytes);
  if (!reader.ok() || Crc32c(fields) != crc32c) return "damage";
  FieldReader field(fields);
  if (field.Read<uint32_t>() != expected.device.driver_version) return "driver";
  if (field.ReadBytes(sizeof(KeptDevice::uuid)) != AsText(expected.device)) {
    return "device";
  }
  if (field.ReadBytes(sizeof(Sha256Digest)) != AsText(expected.layout_key)) {
    return "layout of layers";
  }
  return "damage";
}

std::optional<std::string> EncodeManifestRecord(const ManifestRecord& record) {
  std::string fields;
  AppendInteger<uint32_t>(record.layer.chunk, &fields);
  AppendInteger<int64_t>(record.layer.offset_bytes, &fields);
  AppendInteger<int64_t>(record.layer.size_bytes, &fields);
  AppendInteger<uint64_t>(record.layer.checksum, &fields);
  AppendText(record.id, &fields);
  AppendText(record.spec, &fields);
  AppendText(record.layer.detail, &fields);
  if (fields.size() > kManifestSlotBytes - kFieldsOffset) return std::nullopt;
  fields.resize(kManifestSlotBytes - kFieldsOffset);
  std::string slot;
  AppendInteger<uint64_t>(0, &slot);
  AppendInteger<uint32_t>(Crc32c(fields), &slot);
  return slot + fields;
}

std::optional<ManifestRecord> DecodeManifestRecord(absl::string_view slot) {
  if (slot.size() != kManifestSlotBytes) return std::nullopt;
  FieldReader reader(slot);
  if (reader.Read<uint64_t>() != kValidRecord) return std::nullopt;
  const uint32_t crc32c = reader.Read<uint32_t>();
  if (Crc32c(slot.substr(kFieldsOffset)) != crc32c) return std::nullopt;
  ManifestRecord record;
  record.layer.chunk = reader.Read<uint32_t>();
  record.layer.offset_bytes = reader.Read<int64_t>();
  record.layer.size_bytes = reader.Read<int64_t>();
  record.layer.checksum = reader.Read<uint64_t>();
  record.id = reader.ReadText();
  record.spec = reader.ReadText();
  record.layer.detail = reader.ReadText();
  if (!reader.ok()) return std::nullopt;
  const std::optional<std::string> encoded = EncodeManifestRecord(record);
  if (!encoded.has_value() ||
      encoded->substr(kFieldsOffset) != slot.substr(kFieldsOffset)) {
    return std::nullopt;
  }
  return record;
}

}  // namespace qgemm
