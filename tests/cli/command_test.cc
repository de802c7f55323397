// SPDX-License-Identifier: Apache-2.0

#include "cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qgemm::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An id that begins with `digits`.
std::string Id(const std::string& digits) {
  return digits + std::string(64 - digits.size(), '0');
}

WeightsInfo Layer(const std::string& id, std::vector<std::string> names = {}) {
  WeightsInfo layer;
  layer.id = id;
  layer.names = std::move(names);
  return layer;
}

TEST(ResolveWeights, TheBeginningOfOneIdIsThatId) {
  const std::vector<WeightsInfo> layers = {Layer(Id("abcd1")),
                                           Layer(Id("abcd2"))};
  EXPECT_EQ(*ResolveWeights("abcd1", layers), Id("abcd1"));
  EXPECT_EQ(*ResolveWeights("ABCD2", layers), Id("abcd2"));
}

TEST(ResolveWeights, TheBeginningOfSeveralIdsIsRefusedWithThem) {
  const std::vector<WeightsInfo> layers = {
      Layer(Id("abcd1")), Layer(Id("abcd2")), Layer(Id("ffff"))};
  const absl::Status status = ResolveWeights("abcd", layers).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(Id("abcd1")), HasSubstr(Id("abcd2")),
                    HasSubstr("more digits"), Not(HasSubstr("ffff"))));
}

TEST(ResolveWeights, ANameIsNeverTheBeginningOfAnId) {
  const std::vector<WeightsInfo> layers = {Layer(Id("abcd1")),
                                           Layer(Id("1234"), {"abcd"})};
  EXPECT_EQ(*ResolveWeights("abcd", layers), "abcd");
}

TEST(ResolveWeights, OtherTextsStayAsTheyAre) {
  const std::vector<WeightsInfo> layers = {Layer(Id("abcd1"))};
  for (const std::string text : {"layer/0", "abc", "abce", "abcdefgh"}) {
    EXPECT_EQ(*ResolveWeights(text, layers), text);
  }
  EXPECT_EQ(*ResolveWeights(Id("abcd"), layers), Id("abcd"));
}

}  // namespace
}  // namespace qgemm::cli
