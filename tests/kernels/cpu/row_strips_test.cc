// SPDX-License-Identifier: Apache-2.0
//
// Strips cover all rows in order, and a row's family is its own request's.

#include "kernels/cpu/row_strips.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace qgemm::cpu {
namespace {

void Nothing(const TileArgs*) {}

// Single rows and fours of one family, tiles of two others.
MicrokernelTable SmallTable() {
  MicrokernelTable table;
  table.rows = {
      {"base_4", kFamilyQuantA32, 4, 0, 4, Nothing},
      {"base_1", kFamilyQuantA32, 4, 0, 1, Nothing},
      {"tile", kFamilyQuantAFloat16, 4, 0, kMaxMr, Nothing, 1, kFormParts},
      {"scaled", kFamilyScaledAFloat16, 4, 0, kMaxMr, Nothing, 1, kFormParts}};
  return table;
}

constexpr MicrokernelKey kBaseKey = {kFamilyQuantA32, 4, false};
constexpr MicrokernelKey kTileKey = {kFamilyQuantAFloat16, 4, false};
constexpr MicrokernelKey kScaledKey = {kFamilyScaledAFloat16, 4, false};
constexpr int64_t kLeastRows = 8;
constexpr int64_t kScaledRows = 128;
constexpr FamilyKeys kKeys = {kBaseKey, kTileKey, kLeastRows, kScaledKey,
                              kScaledRows};

class RowStripsTest : public testing::Test {
 protected:
  // The strips of requests of such sizes, as "first+rows name".
  std::vector<std::string> Cut(const std::vector<int64_t>& requests) {
    std::vector<RowFamily> families;
    for (const int64_t rows : requests) {
      families.insert(families.end(), rows, FamilyOf(choice_, rows));
    }
    std::vector<RowStrip> strips;
    CutStrips(choice_, families, strips);
    std::vector<std::string> names;
    for (const RowStrip& strip : strips) {
      names.push_back(std::to_string(strip.first) + "+" +
                      std::to_string(strip.rows) + " " + strip.kernel->name);
    }
    return names;
  }

  const MicrokernelTable table_ = SmallTable();
  const FamilyChoice choice_ = ChooseFamilies(table_, kKeys);
};

TEST_F(RowStripsTest, FewRowsTakeTheBaseWidestFirst) {
  EXPECT_EQ(Cut({6}), (std::vector<std::string>{"0+4 base_4", "4+1 base_1",
                                                "5+1 base_1"}));
}

TEST_F(RowStripsTest, ManyRowsTakeTilesAndTheRestOfATile) {
  EXPECT_EQ(Cut({kMaxMr + 3}),
            (std::vector<std::string>{"0+512 scaled", "512+3 scaled"}));
  EXPECT_EQ(Cut(std::vector<int64_t>(5, kScaledRows - 1)),
            (std::vector<std::string>{"0+512 tile", "512+123 tile"}));
}

TEST_F(RowStripsTest, NeighboursChangeNoFamily) {
  EXPECT_EQ(Cut({1, 8, 1, 1, 1, 1}),
            (std::vector<std::string>{"0+1 base_1", "1+8 tile", "9+4 base_4"}));
}

TEST_F(RowStripsTest, RequestsOfOneFamilyShareAStrip) {
  EXPECT_EQ(Cut({8, 9}), (std::vector<std::string>{"0+17 tile"}));
}

TEST_F(RowStripsTest, RowsWithoutPartsTakeSinglesOfTheBase) {
  for (const RowFamily family : {RowFamily::kPreferred, RowFamily::kScaled}) {
    std::vector<RowStrip> strips;
    CutStrips(choice_, {family}, strips);
    EXPECT_TRUE(strips[0].reads_parts());
    EXPECT_STREQ(strips[0].single->name, "base_1");
  }
}

TEST_F(RowStripsTest, SetWithoutTheFamilyTakesTheBase) {
  MicrokernelTable table = SmallTable();
  table.rows.pop_back();
  FamilyChoice choice = ChooseFamilies(table, kKeys);
  EXPECT_EQ(FamilyOf(choice, kMaxMr), RowFamily::kPreferred);
  table.rows.pop_back();
  choice = ChooseFamilies(table, kKeys);
  EXPECT_STREQ(choice.preferred.by_rows[kMaxMr - 1]->name, "base_4");
}

}  // namespace
}  // namespace qgemm::cpu
