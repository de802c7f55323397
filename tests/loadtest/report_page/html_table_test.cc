// SPDX-License-Identifier: Apache-2.0
//
// Cells, heads and classes.

#include "loadtest/report/page/html_table.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/loadtest/report_page/well_formed.h"

namespace qgemm {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(HtmlTable, EscapesAllText) {
  HtmlTable table;
  table.caption = "<c>";
  table.unit = "<u>";
  table.columns = {{"<h>", Cells::kWords}, {"n"}};
  table.rows = {{{"<a>", "<b>"}, "", {}}};
  const std::string html = FormatHtml(table);
  for (const char* tag : {"<c>", "<u>", "<h>", "<a>", "<b>"}) {
    EXPECT_THAT(html, Not(HasSubstr(tag)));
  }
  EXPECT_TRUE(IsWellFormed(html));
}

TEST(HtmlTable, AlignsNumbersAndWordsByColumn) {
  HtmlTable table;
  table.columns = {{"code", Cells::kWords},
                   {"count", Cells::kNumbers},
                   {"message", Cells::kWords}};
  table.rows = {{{"OK", "3", "fine"}, "", {}}};
  const std::string html = FormatHtml(table);
  EXPECT_THAT(html, HasSubstr("<td class=\"number\">3</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"words\">fine</td>"));
}

TEST(HtmlTable, HasNoHeadWithoutNames) {
  HtmlTable table;
  table.rows = {{{"due", "3"}, "", {}}};
  const std::string html = FormatHtml(table);
  EXPECT_THAT(html, Not(HasSubstr("<thead>")));
  EXPECT_THAT(html, HasSubstr("<td class=\"number\">3</td>"));
}

TEST(HtmlTable, ShowsTheColourOfABarsPart) {
  HtmlTable table;
  table.rows = {{{"queue", "3"}, "sum", 7}};
  const std::string html = FormatHtml(table);
  EXPECT_THAT(html, HasSubstr("class=\"f1\""));
  EXPECT_THAT(html, HasSubstr("<tr class=\"sum\">"));
  EXPECT_TRUE(IsWellFormed(html));
}

}  // namespace
}  // namespace qgemm
