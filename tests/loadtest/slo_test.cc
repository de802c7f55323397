// SPDX-License-Identifier: Apache-2.0
//
// ParseSlo and MissedBounds.

#include "loadtest/slo.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Slo Parse(absl::string_view text) {
  const absl::StatusOr<Slo> slo = ParseSlo(text);
  EXPECT_TRUE(slo.ok()) << slo.status();
  return slo.ok() ? *slo : Slo();
}

// Values up to 2047 ns are exact in a histogram.
RunResult RunOf(const std::vector<int64_t>& latencies_ns) {
  RunResult run;
  run.classes.resize(2);
  for (size_t i = 0; i < latencies_ns.size(); ++i) {
    run.classes[i % 2].latency_ns.Record(latencies_ns[i]);
  }
  return run;
}

TEST(SloTest, EmptyTextIsNoBound) { EXPECT_THAT(Parse(""), IsEmpty()); }

TEST(SloTest, ReadsBoundsInTheirOrder) {
  const Slo slo = Parse("p99=500us,p99.9=2ms,p100=1s");
  ASSERT_EQ(slo.size(), 3);
  EXPECT_EQ(slo[0].name, "p99");
  EXPECT_EQ(slo[0].percent, 99);
  EXPECT_EQ(slo[0].limit, absl::Microseconds(500));
  EXPECT_EQ(slo[1].name, "p99.9");
  EXPECT_EQ(slo[1].percent, 99.9);
  EXPECT_EQ(slo[1].limit, absl::Milliseconds(2));
  EXPECT_EQ(slo[2].percent, 100);
}

TEST(SloTest, RefusesWhatIsNoBound) {
  for (const char* text :
       {"p99", "p99=", "=1ms", "99=1ms", "p=1ms", "p0=1ms", "p-1=1ms",
        "p100.1=1ms", "pnan=1ms", "p99=0", "p99=-1ms", "p99=500", "p99=soon",
        "p99=1ms,", ",p99=1ms", "p99=1ms;p50=2ms", "mean=1ms", "P99=1ms",
        "p99=1ms=2ms"}) {
    const absl::Status status = ParseSlo(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--slo")) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("p99=500us")) << text;
  }
}

TEST(SloTest, ARefusalNamesTheBoundAtFault) {
  const absl::Status status = ParseSlo("p99=1ms,p50=x").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("'p50=x'"));
}

TEST(SloTest, ABoundThatIsJustReachedHolds) {
  const RunResult run = RunOf({100, 200, 300, 400});
  EXPECT_THAT(MissedBounds(run, Parse("p50=200ns,p100=400ns")), IsEmpty());
}

TEST(SloTest, ABoundThatIsExceededIsMissed) {
  const RunResult run = RunOf({100, 200, 300, 400});
  EXPECT_THAT(
      MissedBounds(run, Parse("p50=199ns,p75=300ns,p100=399ns")),
      ElementsAre("p50 is 200ns, above 199ns", "p100 is 400ns, above 399ns"));
}

TEST(SloTest, BoundsAreOverAllClassesTogether) {
  // The second class alone has p50 = 1000.
  const RunResult run = RunOf({100, 1000, 100, 1000, 100});
  EXPECT_THAT(MissedBounds(run, Parse("p60=100ns")), IsEmpty());
}

TEST(SloTest, BoundsAreOnLatencyFromTheIntendedStart) {
  RunResult run = RunOf({1000});
  run.classes[0].send_latency_ns.Record(10);
  EXPECT_EQ(MissedBounds(run, Parse("p50=500ns")).size(), 1);
}

TEST(SloTest, WithoutAnAnswerEveryBoundIsMissed) {
  EXPECT_EQ(MissedBounds(RunOf({}), Parse("p50=1s,p99=1s")).size(), 2);
}

TEST(SloTest, WithoutABoundNothingIsMissed) {
  EXPECT_THAT(MissedBounds(RunOf({}), {}), IsEmpty());
}

}  // namespace
}  // namespace qgemm
