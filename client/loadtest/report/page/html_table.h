// SPDX-License-Identifier: Apache-2.0
//
// Tables of text as HTML: names on the left, numbers aligned on the right,
// scrolling by themselves where a screen is too narrow.

#ifndef QGEMM_CLIENT_LOADTEST_REPORT_PAGE_HTML_TABLE_H_
#define QGEMM_CLIENT_LOADTEST_REPORT_PAGE_HTML_TABLE_H_

#include <optional>
#include <string>
#include <vector>

namespace qgemm {

struct HtmlRow {
  std::vector<std::string> cells;
  std::string css;            // class of the row; may be empty
  std::optional<int> swatch;  // colour of a bar's part before the first cell
};

// All text is escaped.
struct HtmlTable {
  std::string caption;
  std::string unit;                  // small print after the caption
  std::vector<std::string> columns;  // empty: no head
  // From the left so many columns are words.
  size_t word_columns = 1;
  std::vector<HtmlRow> rows;
};

std::string FormatHtml(const HtmlTable& table);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_REPORT_PAGE_HTML_TABLE_H_
