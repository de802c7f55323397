// SPDX-License-Identifier: Apache-2.0
//
// Bytes of each section by the rules of docs/formats.md.

#include "tests/end_to_end/random_upload.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/float16.h"
#include "base/sha256.h"
#include "kernels/formats/weights_decoder.h"
#include "tests/end_to_end/wire_header.h"

namespace qgemm {
namespace {

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string RandomBytes(int64_t size, RandomGenerator* random) {
  std::string bytes;
  bytes.reserve(size + 8);
  while (static_cast<int64_t>(bytes.size()) < size) Append((*random)(), &bytes);
  bytes.resize(size);
  return bytes;
}

std::string RandomFloats(FloatType type, int64_t count,
                         RandomGenerator* random) {
  std::string bytes(count * SizeOf(type), '\0');
  uint8_t* out = reinterpret_cast<uint8_t*>(bytes.data());
  for (int64_t i = 0; i < count; ++i) {
    StoreFloat(type, RandomSigned(random), out + i * SizeOf(type));
  }
  return bytes;
}

// Positive, between 1/4 and 1/2.
std::string RandomScales(const WeightsSpec& spec, int64_t size,
                         RandomGenerator* random) {
  if (spec.format == WireFormat::kTernary) {
    std::string bytes;
    while (static_cast<int64_t>(bytes.size()) < size) {
      Append(0.375f + RandomSigned(random) / 8, &bytes);
    }
    return bytes;
  }
  std::string bytes(size, '\0');
  uint8_t* out = reinterpret_cast<uint8_t*>(bytes.data());
  for (int64_t i = 0; i < size; i += SizeOf(spec.scale_type)) {
    const float scale = 0.375f + RandomSigned(random) / 8;
    switch (spec.scale_type) {
      case ScaleType::kE4m4:
        out[i] = static_cast<uint8_t>(RandomInt(0x90, 0x9f, random));
        break;
      case ScaleType::kFloat16:
        StoreFloat(FloatType::kFloat16, scale, out + i);
        break;
      case ScaleType::kBFloat16:
        StoreFloat(FloatType::kBFloat16, scale, out + i);
        break;
      case ScaleType::kFloat32:
        StoreFloat(FloatType::kFloat32, scale, out + i);
        break;
    }
  }
  return bytes;
}

// Groups of full size, their members anywhere.
std::string RandomGroupIndex(const WeightsSpec& spec, RandomGenerator* random) {
  const int64_t group = spec.group_size == 0 ? spec.k : spec.group_size;
  std::vector<int32_t> index(spec.k);
  for (int64_t i = 0; i < spec.k; ++i)
    index[i] = static_cast<int32_t>(i / group);
  std::shuffle(index.begin(), index.end(), *random);
  std::string bytes;
  for (const int32_t value : index) Append(value, &bytes);
  return bytes;
}

std::string RandomTernaryCodes(const WeightsSpec& spec,
                               RandomGenerator* random) {
  std::string bytes;
  for (int64_t row = 0; row < spec.n; ++row) {
    if (spec.ternary_coding == TernaryCoding::kInt8) {
      for (int64_t i = 0; i < spec.k; ++i) {
        bytes.push_back(static_cast<char>(RandomInt(-1, 1, random)));
      }
      continue;
    }
    // The padding of a row's last byte is zero weights, like all others legal.
    const int64_t low =
        spec.ternary_coding == TernaryCoding::kPacked012 ? 0 : 1;
    for (int64_t i = 0; i < spec.k; i += 4) {
      int byte = 0;
      for (int64_t j = 0; j < std::min<int64_t>(4, spec.k - i); ++j) {
        byte |= static_cast<int>(RandomInt(low, low + 2, random)) << 2 * j;
      }
      bytes.push_back(static_cast<char>(byte));
    }
  }
  return bytes;
}

std::string RandomQ40Blocks(int64_t size, RandomGenerator* random) {
  std::string bytes;
  while (static_cast<int64_t>(bytes.size()) < size) {
    Append(FloatToFloat16(RandomSigned(random) / 8), &bytes);
    bytes += RandomBytes(16, random);
  }
  return bytes;
}

std::string RandomCodes(const WeightsSpec& spec, int64_t size,
                        RandomGenerator* random) {
  switch (spec.format) {
    case WireFormat::kKbit:
    case WireFormat::kInt4:
      return RandomBytes(size, random);
    case WireFormat::kQ4_0:
      return RandomQ40Blocks(size, random);
    case WireFormat::kTernary:
      return RandomTernaryCodes(spec, random);
    case WireFormat::kDense:
      return RandomFloats(spec.dense_type, spec.n * spec.k, random);
  }
  return "";
}

std::string RandomZeros(const WeightsSpec& spec, int64_t size,
                        RandomGenerator* random) {
  std::string bytes = RandomBytes(size, random);
  if (spec.int4_layout == Int4Layout::kPlain) {
    for (char& byte : bytes) byte &= 0x0f;  // one a byte
  }
  return bytes;
}

std::string RandomSection(const WeightsSpec& spec, const SectionSize& section,
                          RandomGenerator* random) {
  switch (section.section) {
    case Section::kCodebook:
    case Section::kBias:
      return RandomFloats(FloatType::kFloat32, section.bytes / 4, random);
    case Section::kGroupIndex:
      return RandomGroupIndex(spec, random);
    case Section::kScales:
      return RandomScales(spec, section.bytes, random);
    case Section::kZeros:
      return RandomZeros(spec, section.bytes, random);
    case Section::kCodes:
      return RandomCodes(spec, section.bytes, random);
  }
  return "";
}

// The enums differ by the wire's zero, which means "not set".
v1::Section ToWireSection(Section section) {
  return static_cast<v1::Section>(static_cast<int>(section) + 1);
}

}  // namespace

RandomUpload MakeRandomUpload(const WeightsSpec& spec,
                              RandomGenerator* random) {
  CHECK_OK(Validate(spec, WeightsLimits()));
  RandomUpload upload;
  upload.spec = spec;
  for (const SectionSize& section : SectionsOf(spec)) {
    upload.sections.push_back(
        {section.section, RandomSection(spec, section, random)});
    CHECK_EQ(upload.sections.back().bytes.size(),
             static_cast<uint64_t>(section.bytes));
  }
  return upload;
}

CanonicalWeights Decode(const RandomUpload& upload) {
  CanonicalWeights weights;
  const auto decoder = NewWeightsDecoder(upload.spec, &weights);
  for (const auto& [section, bytes] : upload.sections) {
    CHECK_OK(decoder->Append(
        section,
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                            bytes.size())));
  }
  CHECK_OK(decoder->Finish().status());
  return weights;
}

std::string IdOf(const RandomUpload& upload) {
  Sha256 hash;
  hash.Update(CanonicalText(upload.spec));
  for (const auto& section : upload.sections) hash.Update(section.bytes);
  const Sha256Digest digest = hash.Finish();
  return std::string(digest.begin(), digest.end());
}

void SetChunkBytes(const std::string& bytes, v1::WeightsChunk* chunk) {
  chunk->set_bytes(bytes);
  chunk->set_crc32c(Crc32c(bytes));
}

std::vector<v1::LoadWeightsRequest> ToMessages(const RandomUpload& upload,
                                               const std::string& name,
                                               int64_t chunk_bytes) {
  std::vector<v1::LoadWeightsRequest> messages(1);
  v1::WeightsHeader* const header = messages[0].mutable_header();
  header->set_name(name);
  header->set_n(upload.spec.n);
  header->set_k(upload.spec.k);
  header->set_has_bias(upload.spec.has_bias);
  header->set_total_bytes(TotalBytes(upload.spec));
  SetFormat(upload.spec, header);
  for (const auto& [section, bytes] : upload.sections) {
    for (size_t offset = 0; offset < bytes.size(); offset += chunk_bytes) {
      v1::WeightsChunk* const chunk = messages.emplace_back().mutable_chunk();
      chunk->set_section(ToWireSection(section));
      chunk->set_offset(offset);
      SetChunkBytes(bytes.substr(offset, chunk_bytes), chunk);
    }
  }
  return messages;
}

}  // namespace qgemm
