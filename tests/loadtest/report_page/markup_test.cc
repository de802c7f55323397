// SPDX-License-Identifier: Apache-2.0
//
// What servers may write into a page.

#include "loadtest/report/page/markup.h"

#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(EscapeMarkup, TagsAndQuotesBecomeReferences) {
  EXPECT_EQ(EscapeMarkup("<a b=\"c\">'&'</a>"),
            "&lt;a b=&quot;c&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

TEST(EscapeMarkup, Utf8StaysAsItIs) {
  EXPECT_EQ(EscapeMarkup("µs – 中 😀"), "µs – 中 😀");
}

TEST(EscapeMarkup, BytesThatAreNotUtf8AreReplacedOneByOne) {
  EXPECT_EQ(EscapeMarkup("a\xff\xc3z"),
            "a" + kReplacement + kReplacement + "z");
}

TEST(EscapeMarkup, OverlongSurrogateAndTooLargeCodesAreReplaced) {
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF8\x88"}) {
    const std::string text = EscapeMarkup(bad);
    EXPECT_EQ(text.substr(0, 3), kReplacement) << text;
  }
}

TEST(EscapeMarkup, ControlCharactersAreReplacedButNotTabAndNewline) {
  EXPECT_EQ(EscapeMarkup("a\tb\nc\x01"
                         "d"),
            "a\tb\nc" + kReplacement + "d");
  EXPECT_EQ(EscapeMarkup(std::string("\0", 1)), kReplacement);
}

TEST(EscapeMarkup, RandomBytesLeaveOnlyWholeCharactersAndNoTags) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(40, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());

    const std::string kept = EscapeMarkup(bytes);
    for (absl::string_view rest = kept; !rest.empty();) {
      const size_t length = LeadingCharacterBytes(rest);
      ASSERT_GT(length, 0u);
      ASSERT_NE(rest[0], '<');
      rest.remove_prefix(length);
    }
  }
}

}  // namespace
}  // namespace qgemm
