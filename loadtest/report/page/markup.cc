// SPDX-License-Identifier: Apache-2.0
//
// Escaping, and the UTF-8 decoding that it needs.

#include "loadtest/report/page/markup.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct LeadByte {
  size_t bytes;       // of the character; 0: no character starts so
  uint32_t bits;      // that the lead byte gives
  uint32_t smallest;  // code point of that length
};

LeadByte DecodeLead(uint8_t byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, byte & 0x1Fu, 0x80};
  if (byte >= 0xE0 && byte <= 0xEF) return {3, byte & 0x0Fu, 0x800};
  if (byte >= 0xF0 && byte <= 0xF4) return {4, byte & 0x07u, 0x10000};
  return {0, 0, 0};
}

// The Char production of XML 1.0 and not a C1 control, which HTML forbids.
bool IsAllowed(uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n';
  if (code >= 0x7F && code < 0xA0) return false;
  if (code >= 0xD800 && code < 0xE000) return false;
  if (code >= 0xFDD0 && code <= 0xFDEF) return false;
  return (code & 0xFFFE) != 0xFFFE && code <= 0x10FFFF;
}

void AppendEscaped(absl::string_view character, std::string* out) {
  switch (character[0]) {
    case '&':
      absl::StrAppend(out, "&amp;");
      return;
    case '<':
      absl::StrAppend(out, "&lt;");
      return;
    case '>':
      absl::StrAppend(out, "&gt;");
      return;
    case '"':
      absl::StrAppend(out, "&quot;");
      return;
    case '\'':
      absl::StrAppend(out, "&#39;");
      return;
    default:
      absl::StrAppend(out, character);
  }
}

}  // namespace

size_t LeadingCharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const LeadByte lead = DecodeLead(static_cast<uint8_t>(text[0]));
  if (lead.bytes == 0 || lead.bytes > text.size()) return 0;
  uint32_t code = lead.bits;
  for (size_t i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3Fu);
  }
  return code >= lead.smallest && IsAllowed(code) ? lead.bytes : 0;
}

std::string EscapeMarkup(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = LeadingCharacterBytes(text);
    if (bytes == 0) {
      absl::StrAppend(&out, kReplacement);
      text.remove_prefix(1);
    } else {
      AppendEscaped(text.substr(0, bytes), &out);
      text.remove_prefix(bytes);
    }
  }
  return out;
}

}  // namespace qgemm
