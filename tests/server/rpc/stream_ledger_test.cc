// SPDX-License-Identifier: Apache-2.0
//
// Messages of a stream that are taken, refused, or end it, and the bounds at
// which it is read no further.

#include "server/rpc/stream_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <vector>

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = StreamVerdict::Kind;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

StreamLimits Limits(int64_t max_requests, int64_t max_bytes) {
  StreamLimits limits;
  limits.max_requests = max_requests;
  limits.max_bytes = max_bytes;
  return limits;
}

// A second request of an id that is outstanding is refused, and changes
// nothing.
bool IsOutstanding(StreamLedger* ledger, uint64_t id) {
  return ledger->Begin(id, 10, 10).kind == Kind::kRefused;
}

TEST(StreamLedger, ARequestIsOutstandingUntilCompleteAndAnswered) {
  StreamLedger ledger(Limits(4, 100));
  EXPECT_EQ(ledger.Begin(7, 10, 10).kind, Kind::kTaken);
  EXPECT_TRUE(ledger.IsComplete(7));
  EXPECT_EQ(ledger.unanswered(), 1);
  ledger.Answer(7);
  EXPECT_EQ(ledger.unanswered(), 0);
  EXPECT_FALSE(IsOutstanding(&ledger, 7));
}

TEST(StreamLedger, AnAnswerBeforeTheLastFragmentLeavesTheIdTaken) {
  StreamLedger ledger(Limits(4, 100));
  ledger.Begin(7, 10, 4);
  ledger.Answer(7);
  EXPECT_EQ(ledger.unanswered(), 0);
  EXPECT_EQ(ledger.Begin(7, 10, 10).kind, Kind::kRefused);
  EXPECT_TRUE(ledger.Continue(7, 4, 6).ok());
  EXPECT_FALSE(IsOutstanding(&ledger, 7));
}

// The client may have the answer before the server knows it sent.
TEST(StreamLedger, AnIdIsFreeAsSoonAsItsAnswerGoesOut) {
  StreamLedger ledger(Limits(2, 100));
  ledger.Begin(7, 10, 10);
  ledger.Hold(7, 40);
  ledger.Answer(7);
  EXPECT_EQ(ledger.Begin(7, 10, 10).kind, Kind::kTaken);
  EXPECT_FALSE(ledger.HasRoom()) << "two wait";
  ledger.Sent();
  EXPECT_TRUE(ledger.HasRoom());
  EXPECT_TRUE(IsOutstanding(&ledger, 7));
  EXPECT_EQ(ledger.unanswered(), 1);
  ledger.Sent();
  EXPECT_TRUE(ledger.HasRoom());
}

TEST(StreamLedger, RefusesAnIdTwiceAndEndsTheStreamIfFragmentsWouldFollow) {
  StreamLedger ledger(Limits(4, 100));
  ledger.Begin(7, 10, 10);
  const StreamVerdict whole = ledger.Begin(7, 10, 10);
  EXPECT_EQ(whole.kind, Kind::kRefused);
  EXPECT_THAT(whole.status.message(), HasSubstr("request_id = 7"));
  EXPECT_EQ(ledger.Begin(7, 10, 9).kind, Kind::kBroken);
}

TEST(StreamLedger, FragmentsMustBeTheNextOnes) {
  StreamLedger ledger(Limits(4, 100));
  ledger.Begin(7, 10, 4);
  const absl::Status gap = ledger.Continue(7, 5, 1);
  EXPECT_EQ(gap.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(gap.message(), AllOf(HasSubstr("offset = 5"), HasSubstr("4")));
  EXPECT_FALSE(ledger.Continue(7, 0, 4).ok());
  EXPECT_TRUE(ledger.Continue(7, 4, 6).ok());
  EXPECT_FALSE(ledger.Continue(7, 10, 1).ok()) << "it is complete";
  EXPECT_FALSE(ledger.Continue(8, 0, 1).ok()) << "it never began";
}

TEST(StreamLedger, FragmentsMustHaveBytesAndNoneTooMany) {
  StreamLedger ledger(Limits(4, 100));
  ledger.Begin(7, 10, 4);
  EXPECT_FALSE(ledger.Continue(7, 4, 0).ok());
  const absl::Status beyond = ledger.Continue(7, 4, 7);
  EXPECT_THAT(beyond.message(), AllOf(HasSubstr("7 bytes"), HasSubstr("6"),
                                      HasSubstr("a_bytes = 10")));
}

TEST(StreamLedger, CountsInAll64Bits) {
  StreamLedger ledger(Limits(4, 100));
  ledger.Begin(7, kMost, 4);
  EXPECT_FALSE(ledger.Continue(7, 4, kMost).ok());
  EXPECT_FALSE(ledger.Continue(7, kMost, 8).ok());
  EXPECT_TRUE(ledger.Continue(7, 4, kMost - 4).ok());
  EXPECT_TRUE(ledger.IsComplete(7));
}

TEST(StreamLedger, EndsAStreamWithTooManyOperandsInPart) {
  StreamLedger ledger(Limits(100, 100));
  for (int64_t id = 0; id < kMaxPartialOperands; ++id) {
    EXPECT_EQ(ledger.Begin(id, 10, 4).kind, Kind::kTaken);
    ledger.Answer(id);  // refused: its rest comes all the same
  }
  EXPECT_EQ(ledger.Begin(99, 10, 10).kind, Kind::kTaken);
  EXPECT_EQ(ledger.Begin(100, 10, 4).kind, Kind::kBroken);
  ledger.EndFragments(3);
  EXPECT_EQ(ledger.Begin(100, 10, 4).kind, Kind::kTaken);
}

TEST(StreamLedger, HasRoomBelowBothBounds) {
  StreamLedger ledger(Limits(2, 100));
  ledger.Begin(1, 10, 10);
  EXPECT_TRUE(ledger.HasRoom());
  ledger.Hold(1, 100);
  EXPECT_FALSE(ledger.HasRoom());
  ledger.Answer(1);
  EXPECT_FALSE(ledger.HasRoom()) << "it is still being sent";
  ledger.Sent();
  EXPECT_TRUE(ledger.HasRoom());
  ledger.Begin(2, 10, 10);
  ledger.Begin(3, 10, 10);
  EXPECT_FALSE(ledger.HasRoom());
}

TEST(StreamLedger, AnOperandInPartNeverStandsInTheWayOfItsRest) {
  StreamLedger ledger(Limits(1, 1));
  ledger.Begin(1, 10, 4);
  ledger.Begin(2, 10, 4);
  EXPECT_TRUE(ledger.HasRoom());
  EXPECT_TRUE(ledger.Continue(1, 4, 6).ok());
  EXPECT_FALSE(ledger.HasRoom());
}

// The counts are those of a plain list of what should be outstanding, whatever
// happens in whatever order.
TEST(StreamLedger, CountsLikeAListUnderRandomEvents) {
  struct Listed {
    uint64_t left = 0;
    bool answered = false;
  };
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  StreamLedger ledger(Limits(3, 1 << 30));
  std::map<uint64_t, Listed> list;
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    const uint64_t id = random() % 6;
    const auto found = list.find(id);
    const bool outstanding = found != list.end();
    switch (random() % 4) {
      case 0:
        if (!outstanding) {
          const uint64_t left = random() % 3;
          ASSERT_EQ(ledger.Begin(id, 10, 10 - left).kind, Kind::kTaken);
          list[id].left = left;
        }
        break;
      case 1:
        ASSERT_EQ(
            ledger.Continue(id, outstanding ? 10 - found->second.left : 0, 1)
                .ok(),
            outstanding && found->second.left > 0);
        if (outstanding && found->second.left > 0) --found->second.left;
        break;
      case 2:
        ledger.Answer(id);
        ledger.Sent();
        if (outstanding) found->second.answered = true;
        break;
      case 3:
        ledger.EndFragments(id);
        if (outstanding) found->second.left = 0;
        break;
    }
    int64_t unanswered = 0, waiting = 0;
    for (auto each = list.begin(); each != list.end();) {
      if (each->second.left == 0 && each->second.answered) {
        each = list.erase(each);
        continue;
      }
      unanswered += each->second.answered ? 0 : 1;
      waiting += each->second.answered || each->second.left > 0 ? 0 : 1;
      EXPECT_TRUE(IsOutstanding(&ledger, each->first));
      ++each;
    }
    EXPECT_EQ(ledger.unanswered(), unanswered);
    EXPECT_EQ(ledger.HasRoom(), waiting < 3);
  }
}

TEST(StreamLedger, TellsHowFarAnOperandHasCome) {
  StreamLedger ledger((StreamLimits()));
  ledger.Begin(1, 100, 40);
  EXPECT_EQ(ledger.partial(), 1);
  EXPECT_EQ(ledger.received_bytes(1), 40u);
  EXPECT_EQ(ledger.a_bytes(1), 100u);
  EXPECT_TRUE(ledger.Continue(1, 40, 60).ok());
  EXPECT_EQ(ledger.partial(), 0);
  EXPECT_EQ(ledger.received_bytes(1), 100u);
}

}  // namespace
}  // namespace qgemm
