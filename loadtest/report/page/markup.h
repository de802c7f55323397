// SPDX-License-Identifier: Apache-2.0
//
// Text that may stand between the tags of HTML and SVG, whatever a server put
// into it.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_MARKUP_H_
#define QGEMM_LOADTEST_REPORT_PAGE_MARKUP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace qgemm {

// For text and for quoted attributes: & < > " ' become references; bytes that
// are not UTF-8, and characters that XML does not allow, become U+FFFD.
std::string EscapeMarkup(absl::string_view text);

// How many bytes at the start of `text` make one UTF-8 character that XML
// allows; 0 if none does.
size_t LeadingCharacterBytes(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_MARKUP_H_
