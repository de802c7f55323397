// SPDX-License-Identifier: Apache-2.0
//
// Traces as typed: what is read, what is skipped, which line is wrong.

#include "loadtest/schedule/arrival_trace.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

TEST(ParseArrivalTrace, ReadsOneOffsetALine) {
  const auto trace = ParseArrivalTrace("0\n0.25\n0.25\n1e1\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->offsets, (std::vector<absl::Duration>{
                                absl::ZeroDuration(), absl::Milliseconds(250),
                                absl::Milliseconds(250), absl::Seconds(10)}));
  EXPECT_EQ(trace->length(), absl::Seconds(10));
}

TEST(ParseArrivalTrace, SkipsCommentsAndEmptyLines) {
  const auto trace =
      ParseArrivalTrace("# seconds\r\n\r\n  1.5  # first\r\n\n2");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->offsets, (std::vector<absl::Duration>{
                                absl::Milliseconds(1500), absl::Seconds(2)}));
}

TEST(ParseArrivalTrace, NamesTheLineThatIsWrong) {
  for (const char* bad : {"x", "-1", "1 2", "nan", "inf", "4e7", "1s"}) {
    const absl::Status status =
        ParseArrivalTrace(absl::StrCat("# comment\n0.5\n", bad, "\n9"))
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("line 3 \"", bad, "\"")))
        << status;
  }
}

TEST(ParseArrivalTrace, RefusesAStepBack) {
  const absl::Status status = ParseArrivalTrace("1\n2\n1.5\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "line 3 \"1.5\""));
  EXPECT_TRUE(absl::StrContains(status.message(), "before it, 2"));
}

TEST(ParseArrivalTrace, RefusesAnEmptyOne) {
  for (const char* text : {"", "\n", "# nothing\n"}) {
    EXPECT_EQ(ParseArrivalTrace(text).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(TimeScaleFor, GivesTheTraceTheRate) {
  const auto trace = ParseArrivalTrace("1\n2\n3\n4\n");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->mean_rate(), 1);
  EXPECT_EQ(*TimeScaleFor(*trace, 10), 0.1);
}

TEST(TimeScaleFor, RefusesATraceWithoutTime) {
  const auto trace = ParseArrivalTrace("0\n0\n");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(TimeScaleFor(*trace, 10).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace qgemm
