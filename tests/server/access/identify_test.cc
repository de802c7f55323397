// SPDX-License-Identifier: Apache-2.0
//
// The order of identity, and what does not make up for another.

#include "server/access/identify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string HexOf(absl::string_view token) {
  Sha256 hash;
  hash.Update(token);
  return ToHex(hash.Finish());
}

class IdentifyTest : public ::testing::Test {
 protected:
  IdentifyTest() {
    const auto table = AccessTable::Parse(absl::StrCat(
        R"({"clients": [
          {"id": "token", "rights": [], "match": [{"token_sha256": ")",
        HexOf("secret"), R"("}]},
          {"id": "spiffe", "rights": [], "match": [
              {"spiffe": "spiffe://corp/s"}]},
          {"id": "san", "rights": [], "match": [{"san": "a.corp"}]},
          {"id": "cn", "rights": [], "match": [{"cn": "a"}]},
          {"id": "user", "rights": [], "match": [{"uid": 1000}]},
          {"id": "proxy", "proxy": true, "match": [{"uid": 7},
              {"cn": "proxy"}]}]})"));
    EXPECT_TRUE(table.ok()) << table.status();
    table_ = *table;
  }

  // The client's id, or the error.
  std::string Id(const Credentials& shown) const {
    const Identity identity = Identify(*table_, shown);
    if (identity.status.ok()) return identity.principal->client_id;
    EXPECT_EQ(identity.status.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(identity.principal, nullptr);
    return std::string(identity.status.message());
  }

  DenyReason Reason(const Credentials& shown) const {
    return Identify(*table_, shown).reason;
  }

  static Credentials OfUser(uid_t user) {
    Credentials shown;
    shown.user = user;
    return shown;
  }
  static Credentials OfCertificate(std::vector<std::string> names) {
    Credentials shown;
    shown.has_certificate = true;
    shown.certificate_names = std::move(names);
    return shown;
  }
  static Credentials With(Credentials shown, absl::string_view authorization) {
    shown.authorization.push_back(authorization);
    return shown;
  }
  static Credentials For(Credentials shown, absl::string_view forwarded) {
    shown.forwarded.push_back(forwarded);
    return shown;
  }

  std::shared_ptr<const AccessTable> table_;
};

TEST_F(IdentifyTest, TheTokenComesBeforeAllElse) {
  Credentials shown = OfCertificate({"cn:a"});
  shown.user = 1000;
  EXPECT_EQ(Id(With(shown, "Bearer secret")), "token");
  EXPECT_EQ(Id(With(shown, "bearer secret")), "token");
}

TEST_F(IdentifyTest, NothingMakesUpForAWrongToken) {
  for (const char* const wrong :
       {"Bearer Secret", "Bearer secret ", "Bearer  secret", "Bearer ",
        "Bearer", "", "secret", "Basic secret"}) {
    EXPECT_THAT(Id(With(OfUser(1000), wrong)), Not("user")) << wrong;
    EXPECT_EQ(Reason(With(OfUser(1000), wrong)), DenyReason::kToken) << wrong;
  }
}

TEST_F(IdentifyTest, TwoTokensAreNone) {
  EXPECT_THAT(Id(With(With(OfUser(1000), "Bearer secret"), "Bearer secret")),
              HasSubstr("must be given once"));
}

TEST_F(IdentifyTest, TellsNothingOfAToken) {
  EXPECT_THAT(Id(With(OfUser(1000), "Bearer hunter2")),
              Not(HasSubstr("hunter2")));
}

TEST_F(IdentifyTest, TheFirstNameOfTheCertificateThatTheTableHasCounts) {
  EXPECT_EQ(Id(OfCertificate(
                {"spiffe:spiffe://corp/s", "san:spiffe://corp/s", "cn:a"})),
            "spiffe");
  EXPECT_EQ(Id(OfCertificate({"san:other.corp", "san:a.corp", "cn:a"})), "san");
  EXPECT_EQ(Id(OfCertificate({"san:other.corp", "cn:a"})), "cn");
}

TEST_F(IdentifyTest, TheUserDoesNotMakeUpForTheCertificate) {
  Credentials shown = OfCertificate({"cn:nobody"});
  shown.user = 1000;
  EXPECT_THAT(Id(shown), HasSubstr("certificate"));
  EXPECT_EQ(Reason(shown), DenyReason::kUnknown);
}

TEST_F(IdentifyTest, KnowsTheUser) {
  EXPECT_EQ(Id(OfUser(1000)), "user");
  EXPECT_THAT(Id(OfUser(1001)), HasSubstr("user id 1001"));
  EXPECT_THAT(Id(Credentials()), HasSubstr("neither a certificate"));
}

TEST_F(IdentifyTest, AProxysCallsAreThoseOfTheClientThatItNames) {
  EXPECT_EQ(Id(For(OfUser(7), "san:a.corp")), "san");
  EXPECT_EQ(Id(For(OfUser(7), "cn:a")), "cn");
  EXPECT_EQ(Id(For(OfCertificate({"cn:proxy"}), "spiffe:spiffe://corp/s")),
            "spiffe");
}

TEST_F(IdentifyTest, AProxyThatNamesNobodyOfTheTableIsRefused) {
  for (const char* const name :
       {"", "a", "cn:", "cn:nobody", "uid:1000", "token:secret", "cn:proxy"}) {
    const Credentials shown = For(OfUser(7), name);
    EXPECT_FALSE(Identify(*table_, shown).status.ok()) << name;
    EXPECT_EQ(Reason(shown), DenyReason::kForwarded) << name;
  }
  EXPECT_THAT(Id(OfUser(7)), HasSubstr("must name its client once"));
  EXPECT_THAT(Id(For(For(OfUser(7), "cn:a"), "san:a.corp")),
              HasSubstr("must name its client once"));
}

TEST_F(IdentifyTest, NobodyElseNamesAnotherClient) {
  EXPECT_EQ(Id(For(OfUser(1000), "cn:a")), "user");
  EXPECT_EQ(Id(For(With(OfUser(7), "Bearer secret"), "cn:a")), "token");
}

}  // namespace
}  // namespace qgemm
