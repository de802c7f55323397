// SPDX-License-Identifier: Apache-2.0
//
// The reader of .gguf.

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "cli/tensor_files/byte_reader.h"
#include "cli/tensor_files/tensor.h"

namespace qgemm {
namespace {

// Metadata value types.
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
// Bytes of a value by type; 0 where it varies.
constexpr int64_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr uint32_t kValueTypes = sizeof(kValueBytes) / sizeof(kValueBytes[0]);

constexpr int kMaxArrayDepth = 4;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
// Bytes of a key or a tensor's name; the format's own bounds are not above it.
constexpr uint64_t kMaxNameBytes = 65535;
// Fewest bytes of one entry: key length, type, one byte of value.
constexpr int64_t kMinMetadataBytes = 8 + 4 + 1;
// Name length, dimensions' count, one dimension, type, offset.
constexpr int64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

absl::Status CheckCount(absl::string_view what, uint64_t count,
                        int64_t min_bytes, const ByteReader& reader) {
  const auto most = static_cast<uint64_t>(reader.remaining() / min_bytes);
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", count, "; the ", reader.remaining(),
                   " bytes left hold at most ", most));
}

// Borrowed until the next read.
absl::StatusOr<absl::string_view> ReadName(ByteReader* reader,
                                           absl::string_view what) {
  ASSIGN_OR_RETURN(const uint64_t size, reader->Read<uint64_t>(what));
  if (size > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " has ", size, " bytes; at most ", kMaxNameBytes, " are read"));
  }
  return reader->ReadBytes(size, what);
}

absl::Status SkipString(ByteReader* reader, absl::string_view what) {
  ASSIGN_OR_RETURN(const uint64_t size, reader->Read<uint64_t>(what));
  return reader->Skip(size, what);
}

absl::Status CheckValueType(uint32_t type) {
  if (type < kValueTypes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a metadata value has the type ", type, "; 0 to ",
                   kValueTypes - 1, " are allowed"));
}

absl::Status SkipValue(uint32_t type, int depth, ByteReader* reader);

absl::Status SkipArray(int depth, ByteReader* reader) {
  if (depth >= kMaxArrayDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata arrays nest deeper than ", kMaxArrayDepth));
  }
  ASSIGN_OR_RETURN(const uint32_t type,
                   reader->Read<uint32_t>("a metadata array's type"));
  RETURN_IF_ERROR(CheckValueType(type));
  ASSIGN_OR_RETURN(const uint64_t count,
                   reader->Read<uint64_t>("a metadata array's length"));
  const int64_t value_bytes = kValueBytes[type];
  if (value_bytes > 0) {
    RETURN_IF_ERROR(
        CheckCount("a metadata array's length", count, value_bytes, *reader));
    return reader->Skip(count * value_bytes, "a metadata array");
  }
  RETURN_IF_ERROR(CheckCount("a metadata array's length", count,
                             sizeof(uint64_t), *reader));
  for (uint64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(SkipValue(type, depth + 1, reader));
  }
  return absl::OkStatus();
}

absl::Status SkipValue(uint32_t type, int depth, ByteReader* reader) {
  RETURN_IF_ERROR(CheckValueType(type));
  if (type == kArray) return SkipArray(depth, reader);
  if (type == kString) return SkipString(reader, "a metadata string");
  return reader->Skip(kValueBytes[type], "a metadata value");
}

// Reads all metadata; returns the alignment of tensor data.
absl::StatusOr<uint64_t> ReadMetadata(uint64_t count, ByteReader* reader) {
  uint64_t alignment = kDefaultAlignment;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const absl::string_view key,
                     ReadName(reader, "a metadata key"));
    const bool is_alignment = key == "general.alignment";
    ASSIGN_OR_RETURN(const uint32_t type,
                     reader->Read<uint32_t>("a metadata type"));
    if (!is_alignment) {
      RETURN_IF_ERROR(SkipValue(type, 0, reader));
      continue;
    }
    if (type != kUint32) {
      return absl::InvalidArgumentError(
          absl::StrCat("general.alignment has the type ", type,
                       "; it must be uint32 (", kUint32, ")"));
    }
    ASSIGN_OR_RETURN(alignment, reader->Read<uint32_t>("general.alignment"));
    if (alignment < 8 || alignment > kMaxAlignment ||
        (alignment & (alignment - 1)) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "general.alignment is ", alignment,
          "; it must be a power of two from 8 to ", kMaxAlignment));
    }
  }
  return alignment;
}

// ggml's numbers of tensor types.
void SetType(uint32_t type, TensorEntry* tensor) {
  struct Known {
    uint32_t number;
    TensorType type;
  };
  constexpr Known kKnown[] = {{0, TensorType::kFloat32},
                              {1, TensorType::kFloat16},
                              {2, TensorType::kQ4_0},
                              {30, TensorType::kBFloat16}};
  for (const Known& known : kKnown) {
    if (known.number == type) {
      tensor->type = known.type;
      tensor->type_name = std::string(Name(known.type));
      return;
    }
  }
  constexpr std::pair<uint32_t, const char*> kListed[] = {
      {3, "Q4_1"},  {6, "Q5_0"},  {7, "Q5_1"},  {8, "Q8_0"}, {10, "Q2_K"},
      {11, "Q3_K"}, {12, "Q4_K"}, {13, "Q5_K"}, {14, "Q6_K"}};
  for (const auto& [number, name] : kListed) {
    if (number == type) {
      tensor->type_name = name;
      return;
    }
  }
  tensor->type_name = absl::StrCat("ggml type ", type);
}

absl::Status ReadShape(ByteReader* reader, TensorEntry* tensor) {
  ASSIGN_OR_RETURN(const uint32_t dimensions,
                   reader->Read<uint32_t>("a tensor's dimension count"));
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor->name), " has ", dimensions,
                     " dimensions; 1 to ", kMaxDimensions, " are allowed"));
  }
  tensor->shape.resize(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {
    ASSIGN_OR_RETURN(const uint64_t extent,
                     reader->Read<uint64_t>("a tensor's dimension"));
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(tensor->name), " has a dimension of ",
                       extent, "; it must be below 2^63"));
    }
    tensor->shape[dimensions - 1 - i] = static_cast<int64_t>(extent);
  }
  return absl::OkStatus();
}

// `offset` stays relative to the data section, whose begin is known later.
absl::StatusOr<TensorEntry> ReadTensor(uint64_t alignment, ByteReader* reader) {
  TensorEntry tensor;
  ASSIGN_OR_RETURN(const absl::string_view name,
                   ReadName(reader, "a tensor's name"));
  tensor.name = std::string(name);
  RETURN_IF_ERROR(ReadShape(reader, &tensor));
  ASSIGN_OR_RETURN(const uint32_t type,
                   reader->Read<uint32_t>("a tensor's type"));
  SetType(type, &tensor);
  RETURN_IF_ERROR(SetSize(&tensor));
  ASSIGN_OR_RETURN(const uint64_t offset,
                   reader->Read<uint64_t>("a tensor's offset"));
  if (offset % alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(tensor.name), " starts at offset ", offset,
        "; it must be a multiple of the alignment ", alignment));
  }
  if (offset > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor.name), " starts at offset ",
                     offset, "; it must be below 2^63"));
  }
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

absl::Status ReadPreamble(ByteReader* reader) {
  ASSIGN_OR_RETURN(const absl::string_view magic,
                   reader->ReadBytes(4, "the magic number"));
  if (magic != "GGUF") {
    return absl::InvalidArgumentError("the file does not start with GGUF");
  }
  ASSIGN_OR_RETURN(const uint32_t version,
                   reader->Read<uint32_t>("the version"));
  if (version != 2 && version != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the GGUF version is ", version, "; 2 and 3 (little-endian) are read"));
  }
  return absl::OkStatus();
}

absl::Status PlaceTensors(int64_t data_begin,
                          std::vector<TensorEntry>* tensors) {
  for (TensorEntry& tensor : *tensors) {
    const auto offset = CheckedAdd(data_begin, tensor.offset);
    if (!offset.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(tensor.name), " starts at offset ",
                       tensor.offset, ", beyond the file"));
    }
    tensor.offset = *offset;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorEntry>> ParseGguf(ByteReader* reader) {
  RETURN_IF_ERROR(ReadPreamble(reader));
  ASSIGN_OR_RETURN(const uint64_t tensor_count,
                   reader->Read<uint64_t>("the tensor count"));
  ASSIGN_OR_RETURN(const uint64_t metadata_count,
                   reader->Read<uint64_t>("the metadata count"));
  RETURN_IF_ERROR(CheckCount("the metadata count", metadata_count,
                             kMinMetadataBytes, *reader));
  ASSIGN_OR_RETURN(const uint64_t alignment,
                   ReadMetadata(metadata_count, reader));
  RETURN_IF_ERROR(
      CheckCount("the tensor count", tensor_count, kMinTensorBytes, *reader));
  std::vector<TensorEntry> tensors;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    ASSIGN_OR_RETURN(TensorEntry tensor, ReadTensor(alignment, reader));
    tensors.push_back(std::move(tensor));
  }
  const int64_t data_begin =
      RoundUp(reader->position(), static_cast<int64_t>(alignment));
  RETURN_IF_ERROR(PlaceTensors(data_begin, &tensors));
  RETURN_IF_ERROR(CheckEntries(tensors, data_begin, reader->size_bytes()));
  return tensors;
}

}  // namespace qgemm
