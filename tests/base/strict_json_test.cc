// SPDX-License-Identifier: Apache-2.0
//
// Texts that are no object as a whole, and values that are none of what is
// asked for: each refused, and in which words.

#include "base/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace qgemm::strict_json {
namespace {

using ::testing::SizeIs;

constexpr size_t kMaxBytes = 100'000;

absl::StatusOr<Json> Parse(const std::string& text) {
  return ParseObject(text, {"table: ", kMaxBytes, "{\"a\": 1}"});
}

// The message of a text that must be refused.
std::string Refusal(const std::string& text) {
  const absl::Status status = Parse(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(StrictJsonTest, ReadsAnObjectWithItsKeysInOrder) {
  const auto root = Parse(R"( {"b": 1, "a": {"b": [true, "x"]}} )");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->dump(), R"({"b":1,"a":{"b":[true,"x"]}})");
}

TEST(StrictJsonTest, RefusesWhatIsNoObjectAsAWhole) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("1"),
        std::string("a"), std::string("{}{}"), std::string("{}x"),
        std::string("{\"a\": 1,}"), std::string("// a comment\n{}"),
        std::string(64, '\0'), std::string(50'000, '['),
        std::string("{\"a\": \"\xff\"}")}) {
    EXPECT_EQ(Refusal(text),
              "table: the text is no JSON object; allowed: {\"a\": 1}")
        << text;
  }
}

TEST(StrictJsonTest, RefusesATextOfOneByteTooMany) {
  std::string text = "{}" + std::string(kMaxBytes - 2, ' ');
  EXPECT_TRUE(Parse(text).ok());
  text += ' ';
  EXPECT_EQ(Refusal(text), "table: the text has more than 100000 bytes");
}

TEST(StrictJsonTest, RefusesAKeyThatComesTwiceInOneObject) {
  constexpr char kTwice[] = "table: the field \"a\" comes twice in one object";
  EXPECT_EQ(Refusal(R"({"a": 1, "a": 1})"), kTwice);
  EXPECT_EQ(Refusal(R"({"b": [{"a": 1, "c": {}, "a": 2}]})"), kTwice);
  EXPECT_EQ(Refusal("{\"a\": 1, \"\\u0061\": 1}"), kTwice);
  EXPECT_TRUE(Parse(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})").ok());
}

TEST(StrictJsonTest, LeavesOutWhatIsNestedDeeperThanEightLevels) {
  // Copied or freed by recursion, this one would take the stack.
  const std::string deep = std::string(20'000, '[') + std::string(20'000, ']');
  const auto root = Parse(absl::StrCat("{\"a\": ", deep, "}"));
  ASSERT_TRUE(root.ok()) << root.status();
  const Json* value = &(*root)["a"];
  int depth = 1;
  for (; !value->empty(); ++depth) value = &(*value)[0];
  EXPECT_EQ(depth, 8);
}

TEST(StrictJsonTest, ShowsValuesInFewBytesOfUtf8) {
  EXPECT_EQ(Shown(Json("a\n")), "\"a\\n\"");
  EXPECT_EQ(Shown(Json(1.5)), "1.5");
  EXPECT_EQ(Shown(Json::array({1, 2})), "an array");
  EXPECT_EQ(Shown(Json::object()), "an object");
  EXPECT_EQ(Shown(Json("G\xffU")), "\"G\xef\xbf\xbdU\"");
  EXPECT_THAT(Shown(Json(std::string(1000, 'a'))), SizeIs(63));
}

TEST(StrictJsonTest, ErrorsNameTheFieldItsValueAndWhatIsLegal) {
  EXPECT_EQ(Illegal("a.b[1]", Json(7), "texts"),
            absl::InvalidArgumentError("a.b[1] = 7; allowed: texts"));
  EXPECT_EQ(Missing("a.b", "texts"),
            absl::InvalidArgumentError("a.b is missing; allowed: texts"));
}

TEST(StrictJsonTest, KeysAreThoseThatAreNamed) {
  const Json object = {{"a", 1}, {"b", 2}};
  EXPECT_TRUE(CheckKeys(object, "the table", {"b", "c", "a"}).ok());
  EXPECT_EQ(CheckKeys(object, "the table", {"a", "c"}),
            absl::InvalidArgumentError("the table holds \"b\", which is no "
                                       "field; allowed: a, c"));
}

TEST(StrictJsonTest, CountsAreWholeNumbersUpToTheMost) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto count = [](const char* text, int64_t most) {
    return CountOf((*Parse(absl::StrCat("{\"a\": ", text, "}")))["a"], most);
  };
  EXPECT_EQ(count("0", 7), 0);
  EXPECT_EQ(count("7", 7), 7);
  EXPECT_EQ(count("9223372036854775807", kMost), kMost);
  for (const char* const other :
       {"8", "-1", "1.0", "1e0", "\"1\"", "null", "true", "[1]", "{}"}) {
    EXPECT_EQ(count(other, 7), absl::nullopt) << other;
  }
  // Beyond int64, and beyond uint64, where the parser makes a double of it.
  EXPECT_EQ(count("9223372036854775808", kMost), absl::nullopt);
  EXPECT_EQ(count("18446744073709551616", kMost), absl::nullopt);
}

}  // namespace
}  // namespace qgemm::strict_json
