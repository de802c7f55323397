// SPDX-License-Identifier: Apache-2.0
//
// Writes rows and cells.

#include "client/loadtest/report/page/html_table.h"

#include "absl/strings/str_cat.h"
#include "client/loadtest/report/page/markup.h"
#include "client/loadtest/report/page/stacked_bar.h"

namespace qgemm {
namespace {

std::string ClassAttribute(absl::string_view css) {
  if (css.empty()) return "";
  return absl::StrCat(" class=\"", EscapeMarkup(css), "\"");
}

std::string Head(const HtmlTable& table) {
  if (table.columns.empty()) return "";
  std::string out = "<thead><tr>";
  for (size_t i = 0; i < table.columns.size(); ++i) {
    absl::StrAppend(&out, "<th scope=\"col\"",
                    ClassAttribute(i < table.word_columns ? "" : "number"), ">",
                    EscapeMarkup(table.columns[i]), "</th>");
  }
  return out + "</tr></thead>\n";
}

std::string Swatch(const HtmlRow& row) {
  if (!row.swatch) return "";
  return absl::StrCat(
      "<svg class=\"swatch\" viewBox=\"0 0 12 12\" "
      "aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
      "class=\"f",
      *row.swatch % kPartStyles, "\"/></svg>");
}

std::string Row(const HtmlTable& table, const HtmlRow& row) {
  std::string out = absl::StrCat("<tr", ClassAttribute(row.css), ">");
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const std::string text = EscapeMarkup(row.cells[i]);
    if (i == 0) {
      absl::StrAppend(&out, "<th scope=\"row\">", Swatch(row), text, "</th>");
    } else {
      absl::StrAppend(
          &out, "<td",
          ClassAttribute(i < table.word_columns ? "words" : "number"), ">",
          text, "</td>");
    }
  }
  return out + "</tr>\n";
}

}  // namespace

std::string FormatHtml(const HtmlTable& table) {
  std::string out = absl::StrCat(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
      EscapeMarkup(table.caption), "\">\n<table>\n<caption>",
      EscapeMarkup(table.caption));
  if (!table.unit.empty()) {
    absl::StrAppend(&out, " <small>", EscapeMarkup(table.unit), "</small>");
  }
  absl::StrAppend(&out, "</caption>\n", Head(table), "<tbody>\n");
  for (const HtmlRow& row : table.rows) absl::StrAppend(&out, Row(table, row));
  return out + "</tbody>\n</table>\n</div>\n";
}

}  // namespace qgemm
