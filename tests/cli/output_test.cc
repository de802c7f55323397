// SPDX-License-Identifier: Apache-2.0
//
// A hostile server's strings in tables and JSON.

#include "cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace qgemm::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Clears the terminal by both forms of its command, and forges a row.
constexpr char kHostile[] = "kbit4\x1b[2J\xC2\x9B\x32J\nlayer  q4_0";

TEST(FormatTableTest, AlignsColumns) {
  EXPECT_EQ(FormatTable({{"NAME", "N"}, {"layer", "32"}, {"重", "8"}}),
            "NAME   N\nlayer  32\n重    8\n");
}

TEST(FormatTableTest, EscapesCells) {
  EXPECT_EQ(FormatTable({{"FORMAT", "N"}, {kHostile, "8"}}),
            "FORMAT                             N\n"
            "kbit4\\x1b[2J\\u{9b}2J\\nlayer  q4_0  8\n");
}

TEST(FormatFieldsTest, EscapesValues) {
  EXPECT_EQ(FormatFields({{"format", kHostile}}),
            "format  kbit4\\x1b[2J\\u{9b}2J\\nlayer  q4_0\n");
}

TEST(FormatJsonTest, IsAscii) {
  const std::string json = FormatJson({{"format", kHostile}});
  EXPECT_THAT(json, Not(HasSubstr("\x1b")));
  EXPECT_THAT(json, Not(HasSubstr("\xC2\x9B")));
  EXPECT_EQ(OrderedJson::parse(json)["format"], kHostile);
}

TEST(PrintableLinesTest, KeepsLinesAndEscapesEach) {
  EXPECT_EQ(PrintableLines("n: 8\nformat: \x1b[2J\n"),
            "n: 8\nformat: \\x1b[2J\n");
}

}  // namespace
}  // namespace qgemm::cli
