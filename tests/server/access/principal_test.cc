// SPDX-License-Identifier: Apache-2.0

#include "server/access/principal.h"

#include <gtest/gtest.h>

namespace qgemm {
namespace {

Principal FrontEnd() {
  Principal principal;
  principal.client_id = "frontend";
  principal.names = {"a/"};
  principal.read = {"shared/"};
  return principal;
}

TEST(RightsTest, HasWhatWasAddedAndNoMore) {
  Rights rights;
  EXPECT_TRUE(rights.empty());
  rights.Add(Right::kAdmin);
  EXPECT_TRUE(rights.Has(Right::kAdmin));
  EXPECT_FALSE(rights.Has(Right::kCompute));
  EXPECT_FALSE(rights.Has(Right::kLoad));
  EXPECT_FALSE(rights.Has(Right::kDebug));
}

TEST(RightsTest, WhoeverConnectsHasNone) {
  EXPECT_TRUE(Rights().Has(Right::kNone));
  EXPECT_TRUE(Rights(Right::kNone).empty());
}

TEST(RightsTest, OneRightInCommonIsEnough) {
  Rights either(Right::kCompute);
  either.Add(Right::kLoad);
  EXPECT_TRUE(Rights(Right::kLoad).HasAnyOf(either));
  EXPECT_FALSE(Rights(Right::kDebug).HasAnyOf(either));
  EXPECT_FALSE(Rights().HasAnyOf(either));
}

TEST(PrincipalTest, EverybodyMayEverythingWithoutATable) {
  EXPECT_TRUE(MayBind(nullptr, "a/up"));
  EXPECT_TRUE(MayRead(nullptr, "a/up"));
}

TEST(PrincipalTest, BindsAndReadsBelowItsPrefixes) {
  const Principal principal = FrontEnd();
  EXPECT_TRUE(MayBind(&principal, "a/up"));
  EXPECT_TRUE(MayRead(&principal, "a/up"));
  EXPECT_FALSE(MayBind(&principal, "b/up"));
  EXPECT_FALSE(MayRead(&principal, "b/up"));
}

TEST(PrincipalTest, APrefixIsNoNameThatItBegins) {
  const Principal principal = FrontEnd();
  EXPECT_FALSE(MayRead(&principal, "a"));
  EXPECT_FALSE(MayRead(&principal, ""));
}

TEST(PrincipalTest, ReadsButDoesNotBindWhatIsShared) {
  const Principal principal = FrontEnd();
  EXPECT_FALSE(MayBind(&principal, "shared/embedding"));
  EXPECT_TRUE(MayRead(&principal, "shared/embedding"));
}

TEST(PrincipalTest, TheEmptyPrefixIsEveryName) {
  Principal principal;
  EXPECT_FALSE(MayBind(&principal, "anything"));
  principal.names = {""};
  EXPECT_TRUE(MayBind(&principal, "anything"));
}

}  // namespace
}  // namespace qgemm
