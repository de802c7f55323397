// SPDX-License-Identifier: Apache-2.0
//
// Tables of text as HTML: names on the left, numbers aligned on the right,
// scrolling by themselves where a screen is too narrow.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_HTML_TABLE_H_
#define QGEMM_LOADTEST_REPORT_PAGE_HTML_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qgemm {

enum class Cells : uint8_t { kWords, kNumbers };

struct HtmlColumn {
  std::string name;
  Cells cells = Cells::kNumbers;
};

struct HtmlRow {
  std::vector<std::string> cells;
  std::string css;            // class of the row; may be empty
  std::optional<int> swatch;  // colour of a bar's part before the first cell
};

// All text is escaped.
struct HtmlTable {
  std::string caption;
  std::string unit;  // small print after the caption
  // Without any name there is no head; without columns the first is words and
  // the others are numbers.
  std::vector<HtmlColumn> columns;
  std::vector<HtmlRow> rows;
};

std::string FormatHtml(const HtmlTable& table);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_HTML_TABLE_H_
