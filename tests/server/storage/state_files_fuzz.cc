// SPDX-License-Identifier: Apache-2.0
//
// The readers of the state directory's files, on any bytes: what they take they
// write as it was.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "server/storage/image_files.h"
#include "server/storage/names_log.h"
#include "server/storage/weights_file.h"
#include "tests/server/storage/fault_files.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

// With the checksum that it should have, so that fields are reached.
void ReadHeader(absl::string_view input) {
  WeightsFileHeader sound;
  sound.spec.format = WireFormat::kQ4_0;
  sound.spec.n = 32;
  sound.spec.k = 64;
  std::string header = EncodeWeightsFileHeader(sound);
  constexpr size_t kCrcOffset = 12;
  for (size_t i = 0; i + 3 <= input.size(); i += 3) {
    const size_t at = (static_cast<uint8_t>(input[i]) << 8 |
                       static_cast<uint8_t>(input[i + 1])) %
                      512;
    header[at] = input[i + 2];
  }
  header.replace(kCrcOffset, 4, 4, '\0');
  const uint32_t crc = Crc32c(header);
  header.replace(kCrcOffset, 4, reinterpret_cast<const char*>(&crc), 4);
  const auto decoded = DecodeWeightsFileHeader(header);
  if (decoded.ok()) CHECK(EncodeWeightsFileHeader(*decoded) == header);
}

// The same of an image.
void ReadImageHeader(absl::string_view input) {
  (void)DecodeImageHeader(input).has_value();
  std::string header = *EncodeImageHeader({{}, "id", {4096, 1, "detail"}});
  for (size_t i = 0; i + 2 <= input.size(); i += 2) {
    header[static_cast<uint8_t>(input[i])] = input[i + 1];
  }
  const size_t crc_offset = header.size() - 4;
  const uint32_t crc = Crc32c(header.substr(0, crc_offset));
  header.replace(crc_offset, 4, reinterpret_cast<const char*>(&crc), 4);
  const auto decoded = DecodeImageHeader(header);
  if (decoded.has_value()) CHECK(EncodeImageHeader(*decoded) == header);
}

void ReadLog(absl::string_view input) {
  // A record with the checksum that it should have, behind a sound header.
  std::string bytes = EncodeNamesHeader();
  const uint32_t length = static_cast<uint32_t>(input.size());
  const uint32_t crc = Crc32c(input);
  bytes.append(reinterpret_cast<const char*>(&length), 4);
  bytes.append(reinterpret_cast<const char*>(&crc), 4);
  bytes.append(input.data(), input.size());
  const auto content = DecodeNamesLog(bytes);
  CHECK_OK(content.status());
  CHECK(content->valid_bytes <= static_cast<int64_t>(bytes.size()));
  NameTable again;
  for (const NameChange& change : content->table.Changes()) {
    again.Apply(change);
  }
  CHECK(again.Changes() == content->table.Changes());
  (void)DecodeNamesLog(input).ok();
}

// A part with these bytes anywhere in it: as much as its checksums vouch for is
// handed over, and no more than it has.
void ReadPart(absl::string_view input) {
  RandomGenerator random(1);
  FaultFiles files(&random);
  WeightsFileHeader header;
  header.spec.format = WireFormat::kQ4_0;
  header.spec.n = 32;
  header.spec.k = 64;
  auto file = files.OpenToWrite("part");
  CHECK_OK(file.status());
  auto writer = WeightsFileWriter::CreatePart(*std::move(file), header);
  CHECK_OK(writer.status());
  CHECK_OK(writer->Append(std::string(TotalBytes(header.spec), 'a')));
  std::string& bytes = files.Bytes("part");
  if (input.size() > 2) {
    const size_t at =
        (static_cast<uint8_t>(input[0]) << 8 | static_cast<uint8_t>(input[1])) %
        6000;
    bytes.resize(std::max(bytes.size(), at));
    bytes.replace(at, input.size() - 2, std::string(input.substr(2)));
  }
  const auto part = WeightsFileReader::OpenPart(*files.OpenToRead("part"));
  if (!part.ok()) return;
  int64_t taken = 0;
  const auto sound =
      part->ReadSound([&taken](Section, absl::Span<const uint8_t> section) {
        taken += static_cast<int64_t>(section.size());
        return absl::OkStatus();
      });
  CHECK_OK(sound.status());
  CHECK(*sound == taken);
  CHECK(taken <= TotalBytes(part->header().spec));
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  qgemm::ReadHeader(input);
  qgemm::ReadImageHeader(input);
  qgemm::ReadLog(input);
  qgemm::ReadPart(input);
  return 0;
}
