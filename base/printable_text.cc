// SPDX-License-Identifier: Apache-2.0
//
// Well-formed UTF-8 by table 3-7 of the Unicode standard.

#include "base/printable_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qgemm {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// Bytes of the sequence that `lead` begins; 0 if none does.
size_t SequenceBytes(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// Not overlong, no surrogate, within Unicode.
bool IsWellFormed(uint32_t code, size_t bytes) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[bytes] && code <= 0x10FFFF &&
         (code < 0xD800 || code > 0xDFFF);
}

// The first character of a text that is not empty.
Character FirstCharacter(absl::string_view text) {
  constexpr uint8_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t bytes = SequenceBytes(lead);
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = lead & kLeadBits[bytes];
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  return IsWellFormed(code, bytes) ? Character{code, bytes} : Character{};
}

bool IsHarmless(uint32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool is_separator = code == 0x2028 || code == 0x2029;
  const bool is_direction =
      code == 0x061C || code == 0x200E || code == 0x200F ||
      (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !is_control && !is_separator && !is_direction;
}

std::string Escape(uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? absl::StrFormat("\\x%02x", code)
                         : absl::StrFormat("\\u{%x}", code);
  }
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    const size_t bytes = std::max<size_t>(first.bytes, 1);
    if (first.bytes == 0) {
      absl::StrAppendFormat(&printable, "\\x%02x",
                            static_cast<uint8_t>(text[0]));
    } else if (first.code == '\\') {
      printable += "\\\\";
    } else if (IsHarmless(first.code)) {
      absl::StrAppend(&printable, text.substr(0, bytes));
    } else {
      printable += Escape(first.code);
    }
    text.remove_prefix(bytes);
  }
  return printable;
}

std::string CutText(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t kept = max_bytes;
  // At most three bytes back: beyond that the text is no UTF-8.
  while (kept > 0 && max_bytes - kept < 3 &&
         (static_cast<uint8_t>(text[kept]) & 0xC0) == 0x80) {
    --kept;
  }
  return absl::StrCat(text.substr(0, kept), "[+", text.size() - kept,
                      " bytes]");
}

}  // namespace qgemm
