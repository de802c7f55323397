// SPDX-License-Identifier: Apache-2.0
//
// Bytes of the manifest (docs/storage.md#the-manifest), which says what layers
// are in memory that outlives the server. Pure; the memory is
// manifest_memory.h's.

#ifndef QGEMM_SERVER_KEEP_MANIFEST_H_
#define QGEMM_SERVER_KEEP_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "kernels/matrix/kept_memory.h"

namespace qgemm {

inline constexpr uint32_t kManifestVersion = 1;
// Bytes of the header, and of each record.
inline constexpr int64_t kManifestSlotBytes = 4096;
// The first word of a record that counts; any other value: of none.
inline constexpr uint64_t kValidRecord = 0x9e6d5ab1c7f3248d;

// All that the layers' bytes depend on.
struct ManifestHeader {
  KeptDevice device;
  Sha256Digest layout_key = {};
};

// A layer, and its place.
struct ManifestRecord {
  std::string id;    // 64 hexadecimal digits
  std::string spec;  // canonical text
  KeptLayer layer;
};

// A slot of each.
std::string EncodeManifestHeader(const ManifestHeader& header);
// The first word is 0: the record counts once that is kValidRecord. nullopt if
// it does not fit.
std::optional<std::string> EncodeManifestRecord(const ManifestRecord& record);

// Empty if the slot is the header of such a manifest; else says what differs.
std::string DifferenceOf(absl::string_view slot,
                         const ManifestHeader& expected);

// nullopt unless the slot is a record that counts, each byte of it as
// EncodeManifestRecord made it.
std::optional<ManifestRecord> DecodeManifestRecord(absl::string_view slot);

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_MANIFEST_H_
