// SPDX-License-Identifier: Apache-2.0
//
// Text of unknown origin as a log and a terminal may show it.

#ifndef QGEMM_BASE_PRINTABLE_TEXT_H_
#define QGEMM_BASE_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace qgemm {

// The text on one line, without effect on a terminal. Printable UTF-8 stays;
// control characters, line separators, marks that change the direction of
// writing, and bytes that are no UTF-8 are escaped: \n, \t, \r, \x1b, \u{202e}.
// A backslash becomes two, so that no text looks escaped that was not.
std::string PrintableText(absl::string_view text);

// At most `max_bytes` of the text, cut between characters; the number of those
// that went follows: "abc[+17 bytes]".
std::string CutText(absl::string_view text, size_t max_bytes);

}  // namespace qgemm

#endif  // QGEMM_BASE_PRINTABLE_TEXT_H_
