// SPDX-License-Identifier: Apache-2.0
//
// Writes rows and cells.

#include "loadtest/report/page/html_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "loadtest/report/page/markup.h"
#include "loadtest/report/page/stacked_bar.h"

namespace qgemm {
namespace {

bool HasHead(const HtmlTable& table) {
  return std::any_of(
      table.columns.begin(), table.columns.end(),
      [](const HtmlColumn& column) { return !column.name.empty(); });
}

absl::string_view ClassOf(const HtmlTable& table, size_t column) {
  if (column >= table.columns.size()) return "number";
  return table.columns[column].cells == Cells::kWords ? "words" : "number";
}

std::string Head(const HtmlTable& table) {
  if (!HasHead(table)) return "";
  std::string out = "<thead><tr>";
  for (size_t i = 0; i < table.columns.size(); ++i) {
    // A cell without text must not be a header.
    const std::string text = EscapeMarkup(table.columns[i].name);
    const absl::string_view tag = text.empty() ? "td" : "th scope=\"col\"";
    absl::StrAppend(&out, "<", tag, " class=\"", ClassOf(table, i), "\">", text,
                    text.empty() ? "</td>" : "</th>");
  }
  return out + "</tr></thead>\n";
}

std::string Swatch(const HtmlRow& row) {
  if (!row.swatch) return "";
  return absl::StrCat(
      "<svg class=\"swatch\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">"
      "<rect width=\"12\" height=\"12\" class=\"f",
      *row.swatch % kPartStyles, "\"/></svg>");
}

std::string Row(const HtmlTable& table, const HtmlRow& row) {
  std::string out =
      row.css.empty()
          ? "<tr>"
          : absl::StrCat("<tr class=\"", EscapeMarkup(row.css), "\">");
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const std::string text = EscapeMarkup(row.cells[i]);
    if (i == 0) {
      absl::StrAppend(&out, "<th scope=\"row\">", Swatch(row), text, "</th>");
    } else {
      absl::StrAppend(&out, "<td class=\"", ClassOf(table, i), "\">", text,
                      "</td>");
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
