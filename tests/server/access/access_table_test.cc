// SPDX-License-Identifier: Apache-2.0
//
// Tables that are taken, and what they find; tables that are refused, and in
// which words.

#include "server/access/access_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDigest[] =
    "4c5dc9b7708905f77f5e5d16316b5dfb425e68cb326dcd55a860e90a7707031e";

Sha256Digest DigestOf(absl::string_view token) {
  Sha256 hash;
  hash.Update(token);
  return hash.Finish();
}

std::shared_ptr<const AccessTable> Table(const std::string& text) {
  const auto table = AccessTable::Parse(text);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *table : std::make_shared<AccessTable>();
}

std::string OneClient(const std::string& fields) {
  return absl::StrCat("{\"clients\": [{", fields, "}]}");
}

// The message of a table that must be refused.
std::string Refusal(const std::string& text) {
  const auto table = AccessTable::Parse(text);
  EXPECT_FALSE(table.ok()) << text;
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(table.status().message());
}

TEST(AccessTableTest, ReadsEveryField) {
  const auto table = Table(OneClient(R"(
      "id": "frontend-a",
      "match": [{"uid": 1000}],
      "rights": ["compute", "load"],
      "names": ["a/"], "read": ["shared/", "b/"],
      "quota": {"queued_rows": 1, "queued_bytes": 2, "weights_bytes": 3,
                "uploads": 4, "streams": 5, "connections": 6})"));
  const AccessClient* const client = table->FindName("uid:1000");
  ASSERT_NE(client, nullptr);
  EXPECT_FALSE(client->is_proxy);
  const Principal& principal = *client->principal;
  EXPECT_EQ(principal.client_id, "frontend-a");
  EXPECT_TRUE(principal.rights.Has(Right::kCompute));
  EXPECT_TRUE(principal.rights.Has(Right::kLoad));
  EXPECT_FALSE(principal.rights.Has(Right::kAdmin));
  EXPECT_FALSE(principal.rights.Has(Right::kDebug));
  EXPECT_THAT(principal.names, ElementsAre("a/"));
  EXPECT_THAT(principal.read, ElementsAre("shared/", "b/"));
  EXPECT_EQ(principal.quota.queued_rows, 1);
  EXPECT_EQ(principal.quota.queued_bytes, 2);
  EXPECT_EQ(principal.quota.weights_bytes, 3);
  EXPECT_EQ(principal.quota.uploads, 4);
  EXPECT_EQ(principal.quota.streams, 5);
  EXPECT_EQ(principal.quota.connections, 6);
}

TEST(AccessTableTest, WhatIsLeftOutIsNotAllowed) {
  const auto table =
      Table(OneClient(R"("id": "a", "match": [{"cn": "a"}], "rights": [])"));
  const Principal& principal = *table->FindName("cn:a")->principal;
  EXPECT_TRUE(principal.rights.empty());
  EXPECT_THAT(principal.names, IsEmpty());
  EXPECT_THAT(principal.read, IsEmpty());
  EXPECT_EQ(principal.quota.streams, 0);
}

TEST(AccessTableTest, FindsAClientByEachOfItsMatches) {
  const auto table = Table(OneClient(absl::StrCat(
      R"("id": "a", "rights": [], "match": [{"spiffe": "spiffe://corp/a"},
         {"san": "a.corp"}, {"cn": "a"}, {"uid": 0}, {"token_sha256": ")",
      ToHex(DigestOf("one")), R"("}, {"token_sha256": ")",
      ToHex(DigestOf("two")), R"("}])")));
  for (const char* const name :
       {"spiffe:spiffe://corp/a", "san:a.corp", "cn:a", "uid:0"}) {
    EXPECT_NE(table->FindName(name), nullptr) << name;
  }
  EXPECT_NE(table->FindToken(DigestOf("one")), nullptr);
  EXPECT_NE(table->FindToken(DigestOf("two")), nullptr);
  EXPECT_EQ(table->FindToken(DigestOf("three")), nullptr);
  for (const char* const name :
       {"san:a", "cn:a.corp", "uid:00", "cn:A", "spiffe:spiffe://corp/a/b"}) {
    EXPECT_EQ(table->FindName(name), nullptr) << name;
  }
}

TEST(AccessTableTest, FindsNoTokenThatOnlyBeginsAsOneOfItsOwn) {
  Sha256Digest digest = DigestOf("token");
  const auto table = Table(OneClient(
      absl::StrCat(R"("id": "a", "rights": [], "match": [{"token_sha256": ")",
                   ToHex(digest), R"("}])")));
  digest.back() ^= 1;
  EXPECT_EQ(table->FindToken(digest), nullptr);
}

TEST(AccessTableTest, AProxyHasNoRightsOfItsOwn) {
  const auto table = Table(
      OneClient(R"("id": "haproxy", "match": [{"uid": 7}], "proxy": true)"));
  EXPECT_TRUE(table->FindName("uid:7")->is_proxy);
  EXPECT_THAT(Refusal(OneClient(
                  R"("id": "haproxy", "match": [{"uid": 7}], "proxy": true,
                     "rights": ["load"])")),
              AllOf(HasSubstr("haproxy"), HasSubstr("a proxy, holds")));
}

TEST(AccessTableTest, ATableWithoutClientsIsOne) {
  EXPECT_EQ(Table("{\"clients\": []}")->size(), 0);
}

// The first example of docs/access.md.
std::string DocumentedTable() {
  std::ifstream page("docs/access.md");
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (inside && line == "```") break;
    if (inside) absl::StrAppend(&text, line, "\n");
    inside = inside || line == "```json";
  }
  return text;
}

TEST(AccessTableTest, TakesWhatThePageShows) {
  const auto table = Table(DocumentedTable());
  EXPECT_EQ(table->size(), 3);
  ASSERT_NE(table->FindName("uid:998"), nullptr);
  EXPECT_TRUE(table->FindName("uid:998")->is_proxy);
}

// Each with the words that its refusal holds.
struct BadTable {
  std::string text;
  std::string words;
};

class BadAccessTableTest : public ::testing::TestWithParam<BadTable> {};

TEST_P(BadAccessTableTest, IsRefusedByEntryAndField) {
  EXPECT_THAT(Refusal(GetParam().text), HasSubstr(GetParam().words));
}

constexpr char kGood[] = R"("id": "a", "match": [{"uid": 1}], "rights": [])";

std::string WithMatch(const std::string& match) {
  return OneClient(
      absl::StrCat(R"("id": "a", "rights": [], "match": [)", match, "]"));
}

std::string Good(const std::string& more) {
  return OneClient(absl::StrCat(kGood, ", ", more));
}

INSTANTIATE_TEST_SUITE_P(
    Shape, BadAccessTableTest,
    ::testing::Values(
        BadTable{"", "no JSON object"}, BadTable{"[]", "no JSON object"},
        BadTable{"{\"clients\": [}", "no JSON object"},
        BadTable{"{}", "clients is missing"},
        BadTable{"{\"clients\": {}}", "clients = an object"},
        BadTable{"{\"clients\": [], \"users\": []}",
                 "the table holds \"users\""},
        BadTable{"{\"clients\": [7]}", "clients[0] = 7"},
        BadTable{"{\"clients\": [], \"clients\": []}", "comes twice"},
        BadTable{Good("\"colour\": 1"), "clients[0] (\"a\") holds \"colour\""},
        BadTable{Good("\"id\": \"b\""), "comes twice"},
        BadTable{std::string(5 << 20, ' '), "more than 4194304 bytes"}));

INSTANTIATE_TEST_SUITE_P(
    Client, BadAccessTableTest,
    ::testing::Values(
        BadTable{OneClient(R"("match": [{"uid": 1}], "rights": [])"),
                 "clients[0].id is missing"},
        BadTable{OneClient(R"("id": "a b", "match": [{"uid": 1}])"),
                 "clients[0].id = \"a b\""},
        BadTable{OneClient(R"("id": "")"), "clients[0].id = \"\""},
        BadTable{
            OneClient(absl::StrCat("\"id\": \"", std::string(65, 'a'), "\"")),
            "clients[0].id = "},
        BadTable{OneClient(R"("id": "a", "match": [{"uid": 1}])"),
                 "clients[0] (\"a\").rights is missing"},
        BadTable{OneClient(R"("id": "a", "rights": [])"),
                 "clients[0] (\"a\").match is missing"},
        BadTable{OneClient(
                     R"("id": "a", "match": [{"uid": 1}], "rights": ["root"])"),
                 "clients[0] (\"a\").rights[0] = \"root\""},
        BadTable{
            OneClient(R"("id": "a", "match": [{"uid": 1}], "rights": "load")"),
            "clients[0] (\"a\").rights = \"load\""},
        BadTable{Good("\"names\": \"a/\""), ".names = \"a/\""},
        BadTable{Good("\"names\": [\"a/\", 1]"), ".names[1] = 1"},
        BadTable{Good("\"read\": [null]"), ".read[0] = null"},
        BadTable{Good("\"proxy\": 1"), ".proxy = 1"},
        BadTable{Good("\"quota\": 1"), ".quota = 1"},
        BadTable{Good("\"quota\": {\"rows\": 1}"), ".quota holds \"rows\""},
        BadTable{Good("\"quota\": {\"streams\": -1}"), ".quota.streams = -1"},
        BadTable{Good("\"quota\": {\"streams\": 2147483648}"),
                 ".quota.streams = 2147483648"},
        BadTable{Good("\"quota\": {\"queued_rows\": 1.5}"),
                 ".quota.queued_rows = 1.5"},
        BadTable{Good("\"quota\": {\"queued_bytes\": 18446744073709551615}"),
                 ".quota.queued_bytes = 18446744073709551615"}));

INSTANTIATE_TEST_SUITE_P(
    Match, BadAccessTableTest,
    ::testing::Values(
        BadTable{WithMatch(""), ".match = an array"},
        BadTable{WithMatch("{}"), ".match[0] = an object"},
        BadTable{WithMatch("{\"uid\": 1, \"cn\": \"a\"}"),
                 ".match[0] = an object"},
        BadTable{WithMatch("{\"name\": \"a\"}"), ".match[0] holds \"name\""},
        BadTable{WithMatch("{\"uid\": \"1\"}"), ".match[0].uid = \"1\""},
        BadTable{WithMatch("{\"uid\": -1}"), ".match[0].uid = -1"},
        BadTable{WithMatch("{\"uid\": 4294967295}"),
                 ".match[0].uid = 4294967295"},
        BadTable{WithMatch("{\"cn\": \"\"}"), ".match[0].cn = \"\""},
        BadTable{WithMatch("{\"spiffe\": \"a.corp\"}"),
                 ".match[0].spiffe = \"a.corp\""},
        BadTable{WithMatch("{\"token_sha256\": \"12\"}"),
                 ".match[0].token_sha256 = \"12\""},
        BadTable{WithMatch(absl::StrCat("{\"token_sha256\": \"",
                                        std::string(64, 'g'), "\"}")),
                 ".match[0].token_sha256 = "},
        BadTable{WithMatch("{\"uid\": 1}, {\"uid\": 1}"),
                 "matched by the client \"a\" already"},
        BadTable{WithMatch(absl::StrCat("{\"token_sha256\": \"", kDigest,
                                        "\"}, {\"token_sha256\": \"", kDigest,
                                        "\"}")),
                 "a token of the client \"a\" already"}));

TEST(AccessTableTest, RefusesAThirdToken) {
  std::vector<std::string> tokens;
  for (const char* const token : {"one", "two", "three"}) {
    tokens.push_back(
        absl::StrCat("{\"token_sha256\": \"", ToHex(DigestOf(token)), "\"}"));
  }
  EXPECT_THAT(Refusal(WithMatch(
                  absl::StrCat(tokens[0], ",", tokens[1], ",", tokens[2]))),
              HasSubstr(".match[2].token_sha256 is one token too many"));
}

TEST(AccessTableTest, RefusesTwoClientsThatMatchTheSame) {
  const std::string other = R"({"id": "b", "match": [{"uid": 1}],
                               "rights": []})";
  EXPECT_THAT(
      Refusal(absl::StrCat("{\"clients\": [{", kGood, "}, ", other, "]}")),
      AllOf(HasSubstr("clients[1] (\"b\").match[0].uid"),
            HasSubstr("\"uid:1\" is matched by the client \"a\"")));
}

TEST(AccessTableTest, RefusesTwoClientsOfOneId) {
  const std::string other = R"({"id": "a", "match": [{"uid": 2}],
                               "rights": []})";
  EXPECT_THAT(
      Refusal(absl::StrCat("{\"clients\": [{", kGood, "}, ", other, "]}")),
      HasSubstr("clients[1].id = \"a\""));
}

}  // namespace
}  // namespace qgemm
