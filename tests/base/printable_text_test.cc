// SPDX-License-Identifier: Apache-2.0
//
// Text of hostile origin becomes one harmless line; other text stays.

#include "base/printable_text.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

struct TextCase {
  absl::string_view text;
  absl::string_view printable;
};

class PrintableTextTest : public ::testing::TestWithParam<TextCase> {};

TEST_P(PrintableTextTest, Escapes) {
  EXPECT_EQ(PrintableText(GetParam().text), GetParam().printable);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, PrintableTextTest,
    ::testing::Values(
        TextCase{"", ""}, TextCase{"layer.0/q_proj", "layer.0/q_proj"},
        TextCase{"Größe, 重み, 🙂", "Größe, 重み, 🙂"},
        TextCase{"a\nI 2026-01-01 forged] x", "a\\nI 2026-01-01 forged] x"},
        TextCase{"\r\t\b", "\\r\\t\\x08"},
        TextCase{absl::string_view("\0x", 2), "\\x00x"},
        TextCase{"\x1b[2J\x7f", "\\x1b[2J\\x7f"},
        // U+009B is the one-character form of ESC [.
        TextCase{"\xC2\x9B"
                 "2J",
                 "\\u{9b}2J"},
        TextCase{"a\xE2\x80\xA8"
                 "b\xE2\x80\xA9",
                 "a\\u{2028}b\\u{2029}"},
        TextCase{"user\xE2\x80\xAE"
                 "nimda",
                 "user\\u{202e}nimda"},
        TextCase{"\\n", "\\\\n"},
        // Not UTF-8: a lone byte, a cut sequence, overlong, a surrogate, beyond
        // Unicode.
        TextCase{"\xFF", "\\xff"}, TextCase{"\xE9\x87", "\\xe9\\x87"},
        TextCase{"\xE9\x87"
                 "A",
                 "\\xe9\\x87A"},
        TextCase{"\xC0\x8A", "\\xc0\\x8a"},
        TextCase{"\xE0\x80\x8A", "\\xe0\\x80\\x8a"},
        TextCase{"\xED\xA0\x80", "\\xed\\xa0\\x80"},
        TextCase{"\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}));

TEST(CutTextTest, LeavesTextThatFits) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("", 0), "");
}

TEST(CutTextTest, SaysHowMuchWent) {
  EXPECT_EQ(CutText("abcdef", 4), "abcd[+2 bytes]");
  EXPECT_EQ(CutText(std::string(1 << 20, 'x'), 1), "x[+1048575 bytes]");
}

TEST(CutTextTest, CutsBetweenCharacters) {
  EXPECT_EQ(CutText("ab重c", 2), "ab[+4 bytes]");
  EXPECT_EQ(CutText("ab重c", 3), "ab[+4 bytes]");
  EXPECT_EQ(CutText("ab重c", 4), "ab[+4 bytes]");
  EXPECT_EQ(CutText("ab重c", 5), "ab重[+1 bytes]");
}

TEST(CutTextTest, CutsWhatIsNoUtf8Anyway) {
  EXPECT_EQ(CutText(std::string(10, '\x80'), 6).size(),
            std::string("xxx[+7 bytes]").size());
}

}  // namespace
}  // namespace qgemm
