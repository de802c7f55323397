// SPDX-License-Identifier: Apache-2.0
//
// Sizes and the checks of a directory that every format shares.

#include "cli/tensor_files/tensor.h"

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr int64_t kQ40BlockElements = 32;
constexpr int64_t kQ40BlockBytes = 18;

int64_t ElementBytes(TensorType type) {
  return type == TensorType::kFloat32 ? 4 : 2;
}

absl::Status CheckNames(const std::vector<TensorEntry>& tensors) {
  std::set<absl::string_view> names;
  for (const TensorEntry& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors are named ", Quoted(tensor.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(TensorType type) {
  switch (type) {
    case TensorType::kFloat32:
      return "F32";
    case TensorType::kFloat16:
      return "F16";
    case TensorType::kBFloat16:
      return "BF16";
    case TensorType::kQ4_0:
      return "Q4_0";
  }
  return "?";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string Quoted(absl::string_view name) {
  constexpr size_t kShown = 80;
  return absl::StrCat("'", absl::CEscape(name.substr(0, kShown)),
                      name.size() > kShown ? "...'" : "'");
}

absl::Status SetSize(TensorEntry* tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor->shape) {
    const auto product = CheckedMul(elements, extent);
    if (extent < 1 || !product.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(tensor->name), " has the shape ",
          ShapeText(tensor->shape),
          "; dimensions must be 1 or more and their product below 2^63"));
    }
    elements = *product;
  }
  if (!tensor->type.has_value()) return absl::OkStatus();
  std::optional<int64_t> bytes;
  if (*tensor->type == TensorType::kQ4_0) {
    if (tensor->shape.empty() ||
        tensor->shape.back() % kQ40BlockElements != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(tensor->name), " has the shape ",
          ShapeText(tensor->shape), "; the innermost dimension of a Q4_0 ",
          "tensor must be a multiple of ", kQ40BlockElements));
    }
    bytes = CheckedMul(elements / kQ40BlockElements, kQ40BlockBytes);
  } else {
    bytes = CheckedMul(elements, ElementBytes(*tensor->type));
  }
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(tensor->name), " has the shape ",
                     ShapeText(tensor->shape), ", 2^63 bytes or more"));
  }
  tensor->size_bytes = *bytes;
  return absl::OkStatus();
}

absl::Status CheckEntries(const std::vector<TensorEntry>& tensors,
                          int64_t data_begin, int64_t file_bytes) {
  RETURN_IF_ERROR(CheckNames(tensors));
  std::vector<const TensorEntry*> by_offset;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.offset < data_begin || tensor.offset > file_bytes ||
        tensor.size_bytes > file_bytes - tensor.offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(tensor.name), " takes ", tensor.size_bytes,
          " bytes from ", tensor.offset, "; the file's data is bytes ",
          data_begin, " to ", file_bytes, " (is it truncated?)"));
    }
    if (tensor.size_bytes > 0) by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorEntry* a, const TensorEntry* b) {
              return a->offset < b->offset;
            });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorEntry& before = *by_offset[i - 1];
    if (before.offset + before.size_bytes > by_offset[i]->offset) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", Quoted(before.name), " and ",
                       Quoted(by_offset[i]->name), " overlap"));
    }
  }
  return absl::OkStatus();
}

}  // namespace qgemm
