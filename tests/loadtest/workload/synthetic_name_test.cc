// SPDX-License-Identifier: Apache-2.0
//
// Names of synthetic layers are legal at their longest.

#include "loadtest/workload/synthetic_name.h"

#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(SyntheticName, SaysAllThatDecidesTheLayer) {
  EXPECT_EQ(SyntheticName({"kbit4", {4096, 14336}, 7, 3}),
            "loadtest/kbit4/4096x14336/7/3");
}

TEST(SyntheticName, IsLegalAtItsLongest) {
  const std::string name = SyntheticName({"int4-asymmetric",
                                          {int64_t{1} << 20, int64_t{1} << 20},
                                          std::numeric_limits<uint64_t>::max(),
                                          std::numeric_limits<int64_t>::max()});
  EXPECT_LE(name.size(), 128);
  EXPECT_TRUE(absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(c) ||
           absl::string_view("._/-").find(c) != absl::string_view::npos;
  })) << name;
}

}  // namespace
}  // namespace qgemm
