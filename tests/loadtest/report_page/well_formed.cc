// SPDX-License-Identifier: Apache-2.0
//
// Scans by hand: std::regex needs a stack frame for each character.

#include "tests/loadtest/report_page/well_formed.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace qgemm {
namespace {

bool IsVoidElement(absl::string_view name) {
  return name == "meta" || name == "link" || name == "!doctype";
}

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '!'; }

struct Tag {
  enum class Kind : uint8_t { kOpens, kCloses, kStandsAlone };
  Kind kind = Kind::kOpens;
  absl::string_view name;
};

// What stands between < and >, but for those. Nothing if it is no tag.
std::optional<Tag> ParseTag(absl::string_view text) {
  Tag tag;
  if (absl::StartsWith(text, "/")) {
    tag.kind = Tag::Kind::kCloses;
    text.remove_prefix(1);
  } else if (absl::EndsWith(text, "/")) {
    tag.kind = Tag::Kind::kStandsAlone;
  }
  const auto end = std::find_if_not(text.begin(), text.end(), IsNameCharacter);
  tag.name = text.substr(0, end - text.begin());
  if (tag.name.empty() || absl::StrContains(text, "<")) return std::nullopt;
  if (std::count(text.begin(), text.end(), '"') % 2 != 0) return std::nullopt;
  if (IsVoidElement(tag.name)) tag.kind = Tag::Kind::kStandsAlone;
  return tag;
}

testing::AssertionResult Complain(absl::string_view what,
                                  absl::string_view where) {
  return testing::AssertionFailure() << what << ": " << where.substr(0, 80);
}

bool IsNoNumber(absl::string_view word) {
  return absl::EqualsIgnoreCase(word, "nan") ||
         absl::EqualsIgnoreCase(word, "inf") ||
         absl::EqualsIgnoreCase(word, "infinity");
}

}  // namespace

testing::AssertionResult IsWellFormed(absl::string_view markup) {
  std::vector<absl::string_view> open;
  size_t at = 0;
  while ((at = markup.find('<', at)) != absl::string_view::npos) {
    const size_t end = markup.find('>', at);
    if (end == absl::string_view::npos) {
      return Complain("no end of", markup.substr(at));
    }
    const std::optional<Tag> tag =
        ParseTag(markup.substr(at + 1, end - at - 1));
    if (!tag) return Complain("not a tag", markup.substr(at));
    if (tag->kind == Tag::Kind::kOpens) open.push_back(tag->name);
    if (tag->kind == Tag::Kind::kCloses) {
      if (open.empty() || open.back() != tag->name) {
        return Complain("unexpected", markup.substr(at));
      }
      open.pop_back();
    }
    at = end;
  }
  if (!open.empty()) return Complain("not closed", open.back());
  return testing::AssertionSuccess();
}

testing::AssertionResult HasOnlyNumbers(absl::string_view markup) {
  size_t start = 0;
  for (size_t i = 0; i <= markup.size(); ++i) {
    if (i < markup.size() && absl::ascii_isalpha(markup[i])) continue;
    if (IsNoNumber(markup.substr(start, i - start))) {
      return Complain("no number", markup.substr(start < 40 ? 0 : start - 40));
    }
    start = i + 1;
  }
  return testing::AssertionSuccess();
}

}  // namespace qgemm
