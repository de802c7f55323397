// SPDX-License-Identifier: Apache-2.0
//
// --arrivals as typed.

#include "loadtest/schedule/arrival_process.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(ParseArrivalProcess, KnowsTheKinds) {
  EXPECT_EQ(ParseArrivalProcess("constant")->kind, ArrivalKind::kConstant);
  EXPECT_EQ(ParseArrivalProcess("poisson")->kind, ArrivalKind::kPoisson);
  EXPECT_EQ(ParseArrivalProcess("gamma:2")->kind, ArrivalKind::kGamma);
  EXPECT_EQ(ParseArrivalProcess("trace:a.txt")->kind, ArrivalKind::kTrace);
}

TEST(ParseArrivalProcess, ReadsTheVariation) {
  EXPECT_EQ(ParseArrivalProcess("gamma:2.5")->variation, 2.5);
  EXPECT_EQ(ParseArrivalProcess("gamma:0.1")->variation, 0.1);
  EXPECT_EQ(ParseArrivalProcess("gamma:10")->variation, 10);
}

TEST(ParseArrivalProcess, APathMayHoldAColon) {
  EXPECT_EQ(ParseArrivalProcess("trace:/tmp/a:b")->trace_path, "/tmp/a:b");
}

TEST(ParseArrivalProcess, RefusesAllElse) {
  for (const char* text :
       {"", "Poisson", "uniform", "gamma", "gamma:", "gamma:x", "gamma:0.09",
        "gamma:10.1", "gamma:nan", "gamma:-1", "poisson:1", "trace:"}) {
    const absl::Status status = ParseArrivalProcess(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("--arrivals=", text, ":")))
        << status;
  }
}

}  // namespace
}  // namespace qgemm
