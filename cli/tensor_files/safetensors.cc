// SPDX-License-Identifier: Apache-2.0
//
// The reader of .safetensors.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "cli/tensor_files/byte_reader.h"
#include "cli/tensor_files/tensor.h"

namespace qgemm {
namespace {

using Json = nlohmann::json;

// The format's own bound on its header.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// File, tensor, list of numbers; the rest of a well-formed header is flat.
constexpr int kMaxDepth = 3;

// Parses and refuses what a header never has: depth and repeated names.
absl::StatusOr<Json> ParseHeader(absl::string_view text) {
  bool too_deep = false;
  std::string repeated;
  std::unordered_set<std::string> names;
  const Json::parser_callback_t callback = [&](int depth,
                                               Json::parse_event_t event,
                                               Json& parsed) {
    if (depth >= kMaxDepth && (event == Json::parse_event_t::array_start ||
                               event == Json::parse_event_t::object_start)) {
      too_deep = true;
    }
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(parsed.get_ref<const std::string&>()).second) {
      repeated = parsed.get_ref<const std::string&>();
    }
    return !too_deep;
  };
  Json header = Json::parse(text.begin(), text.end(), callback,
                            /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat("the JSON header nests deeper than ", kMaxDepth));
  }
  if (!repeated.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("two tensors are named ", Quoted(repeated)));
  }
  if (header.is_discarded() || !header.is_object()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  return header;
}

absl::StatusOr<std::vector<int64_t>> Integers(const Json& tensor,
                                              const char* field,
                                              absl::string_view name) {
  const auto found = tensor.find(field);
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quoted(name), ": ", field,
                   " is not a list of whole numbers below 2^63"));
  if (found == tensor.end() || !found->is_array()) return wrong;
  std::vector<int64_t> values;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return wrong;
    }
    values.push_back(value.get<int64_t>());
  }
  return values;
}

std::optional<TensorType> TypeOf(absl::string_view name) {
  if (name == "F32") return TensorType::kFloat32;
  if (name == "F16") return TensorType::kFloat16;
  if (name == "BF16") return TensorType::kBFloat16;
  return std::nullopt;
}

absl::StatusOr<TensorEntry> ParseTensor(const std::string& name,
                                        const Json& json, int64_t data_begin) {
  TensorEntry tensor;
  tensor.name = name;
  const auto type = json.is_object() ? json.find("dtype") : json.end();
  if (!json.is_object() || type == json.end() || !type->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), " has no dtype"));
  }
  tensor.type_name = type->get<std::string>();
  tensor.type = TypeOf(tensor.type_name);
  ASSIGN_OR_RETURN(tensor.shape, Integers(json, "shape", name));
  ASSIGN_OR_RETURN(const std::vector<int64_t> range,
                   Integers(json, "data_offsets", name));
  const auto offset = range.size() == 2 && range[0] <= range[1]
                          ? CheckedAdd(data_begin, range[0])
                          : std::nullopt;
  if (!offset.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(name), ": data_offsets is ", ShapeText(range),
        "; it must be [begin, end] with begin <= end"));
  }
  tensor.offset = *offset;
  tensor.size_bytes = range[1] - range[0];
  if (!tensor.type.has_value()) return tensor;
  const int64_t stated_bytes = tensor.size_bytes;
  RETURN_IF_ERROR(SetSize(&tensor));
  if (tensor.size_bytes != stated_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), ": data_offsets span ",
                     stated_bytes, " bytes; ", tensor.type_name, " ",
                     ShapeText(tensor.shape), " takes ", tensor.size_bytes));
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<TensorEntry>> ParseSafetensors(ByteReader* reader) {
  ASSIGN_OR_RETURN(const uint64_t header_bytes,
                   reader->Read<uint64_t>("the header's length"));
  if (header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header's length is ", header_bytes, "; at most ",
                     kMaxHeaderBytes, " is allowed"));
  }
  ASSIGN_OR_RETURN(const absl::string_view text,
                   reader->ReadBytes(header_bytes, "the header"));
  ASSIGN_OR_RETURN(const Json header, ParseHeader(text));
  std::vector<TensorEntry> tensors;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    ASSIGN_OR_RETURN(TensorEntry tensor,
                     ParseTensor(name, json, reader->position()));
    tensors.push_back(std::move(tensor));
  }
  RETURN_IF_ERROR(
      CheckEntries(tensors, reader->position(), reader->size_bytes()));
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return a.offset < b.offset;
                   });
  return tensors;
}

}  // namespace qgemm
