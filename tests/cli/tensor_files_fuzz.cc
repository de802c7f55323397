// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: no bytes of a tensor file crash a reader, or give a
// tensor that lies outside the file. The input is a well-formed file and edits
// of it, or bytes as they are. tools/fuzz.sh runs it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "cli/tensor_files/npy.h"
#include "cli/tensor_files/tensor.h"
#include "tests/cli/tensor_bytes.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {
namespace {

enum class Format : uint8_t { kSafetensors, kGguf, kNpy };

std::string WellFormed(Format format) {
  switch (format) {
    case Format::kSafetensors:
      return Safetensors(
          R"({"__metadata__":{"a":"b"},)"
          R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
          R"("h":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}})",
          12);
    case Format::kGguf:
      return GgufFile(
          GgufPreamble(2, 2) + GgufString("general.alignment") +
              Raw<uint32_t>(4) + Raw<uint32_t>(32) + GgufString("list") +
              Raw<uint32_t>(9) + Raw<uint32_t>(8) + Raw<uint64_t>(2) +
              GgufString("a") + GgufString("b") +
              GgufTensor("w", {64, 2}, 2, 0) + GgufTensor("b", {4}, 30, 96),
          104);
    case Format::kNpy:
      return NpyHeader("<f4", 2, 3) + std::string(24, '\0');
  }
  return "";
}

// Puts bytes of the input in, in place of others, or takes some out.
void Edit(FuzzInput* input, std::string* file) {
  if (file->empty()) return;
  const size_t at = (input->Byte() * 256 + input->Byte()) % file->size();
  const std::string bytes = input->Bytes(1 + input->Below(8));
  switch (input->Below(3)) {
    case 0:
      file->insert(at, bytes);
      break;
    case 1:
      file->erase(at, bytes.size());
      break;
    default:
      file->replace(at, bytes.size(), bytes);
  }
}

absl::StatusOr<std::vector<TensorEntry>> Parse(Format format,
                                               const std::string& file) {
  if (format == Format::kSafetensors) return ParseBytes(ParseSafetensors, file);
  if (format == Format::kGguf) return ParseBytes(ParseGguf, file);
  const absl::StatusOr<TensorEntry> matrix = ParseBytes(ParseNpy, file);
  if (!matrix.ok()) return matrix.status();
  return std::vector<TensorEntry>{*matrix};
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qgemm::FuzzInput input(data, size);
  const auto format = static_cast<qgemm::Format>(input.Below(3));
  std::string file;
  if (input.OneIn(8)) {
    file = input.Bytes(size);
  } else {
    file = qgemm::WellFormed(format);
    while (!input.empty()) qgemm::Edit(&input, &file);
  }
  const auto tensors = qgemm::Parse(format, file);
  if (!tensors.ok()) return 0;
  for (const qgemm::TensorEntry& tensor : *tensors) {
    CHECK(!qgemm::ShapeText(tensor.shape).empty());
    if (!tensor.type.has_value()) continue;
    CHECK_GE(tensor.offset, 0);
    CHECK_LE(tensor.offset, static_cast<int64_t>(file.size()));
    CHECK_LE(tensor.size_bytes,
             static_cast<int64_t>(file.size()) - tensor.offset);
  }
  return 0;
}
