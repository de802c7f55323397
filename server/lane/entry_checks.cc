// SPDX-License-Identifier: Apache-2.0

#include "server/lane/entry_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

absl::Status CheckZero(absl::string_view field, uint8_t value,
                       absl::string_view why) {
  if (value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = ", value, "; it must be 0", why));
}

// The operand's name is "a" or "c".
absl::Status CheckOperand(absl::string_view name, uint64_t offset,
                          uint64_t bytes, uint64_t size) {
  if (offset % lane::kOperandAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, "_offset = ", offset,
                                                   " is not a multiple of ",
                                                   lane::kOperandAlignment));
  }
  if (offset <= size && bytes <= size - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, "_offset = ", offset, " and ", name, "_bytes = ", bytes,
      " reach beyond the ", size, " bytes of its memory"));
}

}  // namespace

absl::Status CheckEntry(const lane::RequestEntry& entry, lane::HandleKind kind,
                        int64_t a_memory_bytes, int64_t c_memory_bytes) {
  RETURN_IF_ERROR(CheckZero("reserved", entry.reserved, ""));
  if (kind == lane::HandleKind::kProgram) {
    constexpr char kWhy[] = " for a program, which has its own";
    RETURN_IF_ERROR(CheckZero("a_type", entry.a_type, kWhy));
    RETURN_IF_ERROR(CheckZero("c_type", entry.c_type, kWhy));
    RETURN_IF_ERROR(CheckZero("mode", entry.mode, kWhy));
    RETURN_IF_ERROR(CheckZero("rounding", entry.rounding, kWhy));
  }
  RETURN_IF_ERROR(CheckOperand("a", entry.a_offset, entry.a_bytes,
                               static_cast<uint64_t>(a_memory_bytes)));
  RETURN_IF_ERROR(CheckOperand("c", entry.c_offset, entry.c_bytes,
                               static_cast<uint64_t>(c_memory_bytes)));
  if (entry.a_region != entry.c_region) return absl::OkStatus();
  // No sum overflows from here on.
  if (entry.a_offset < entry.c_offset + entry.c_bytes &&
      entry.c_offset < entry.a_offset + entry.a_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a [", entry.a_offset, ", ", entry.a_offset + entry.a_bytes,
        ") and c [", entry.c_offset, ", ", entry.c_offset + entry.c_bytes,
        ") overlap"));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
