// SPDX-License-Identifier: Apache-2.0

#include "server/net/client_frames.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {
namespace {

enum FrameType : char {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4
};
constexpr char kNoFlags = 0;
constexpr char kAck = 1;

constexpr absl::Time kNow = absl::UnixEpoch();

std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

// A frame of stream 1 with so many bytes that look like other frames.
std::string Frame(FrameType type, char flags, size_t payload_bytes) {
  const std::string length = {static_cast<char>(payload_bytes >> 16),
                              static_cast<char>(payload_bytes >> 8),
                              static_cast<char>(payload_bytes)};
  return absl::StrCat(length, std::string({type, flags, 0, 0, 0, 1}),
                      std::string(payload_bytes, kHeaders));
}

std::string Frames(int count, FrameType type, char flags, size_t payload) {
  std::string frames;
  for (int i = 0; i < count; ++i) frames += Frame(type, flags, payload);
  return frames;
}

TEST(ClientFramesTest, CallsBeforeTheAcknowledgementAreBounded) {
  ClientFrames frames;
  frames.Add(Preface() + Frame(kSettings, kNoFlags, 12), kNow);
  frames.Add(Frames(256, kHeaders, kNoFlags, 30), kNow);
  frames.Add(Frame(kData, kNoFlags, 70'000), kNow);
  EXPECT_FALSE(frames.must_end());
  frames.Add(Frame(kHeaders, kNoFlags, 0), kNow);
  EXPECT_TRUE(frames.must_end());
}

TEST(ClientFramesTest, CallsAfterTheAcknowledgementAreNot) {
  ClientFrames frames;
  frames.Add(Preface() + Frames(256, kHeaders, kNoFlags, 30), kNow);
  frames.Add(Frame(kSettings, kAck, 0) + Frames(300, kHeaders, kNoFlags, 9),
             kNow);
  EXPECT_FALSE(frames.must_end());
}

TEST(ClientFramesTest, BytesMayComeInAnyPieces) {
  const std::string bytes = Preface() + Frames(256, kHeaders, kNoFlags, 20) +
                            Frame(kData, kNoFlags, 300) +
                            Frame(kHeaders, kNoFlags, 0);
  for (size_t piece = 1; piece <= 600; ++piece) {
    ClientFrames frames;
    for (size_t i = 0; i < bytes.size(); i += piece) {
      EXPECT_FALSE(frames.must_end());
      frames.Add(absl::string_view(bytes).substr(i, piece), kNow);
    }
    EXPECT_TRUE(frames.must_end()) << "in pieces of " << piece;
  }
}

TEST(ClientFramesTest, PrefaceIsNoFrame) {
  ClientFrames frames;
  frames.Add(std::string(24, kHeaders), kNow);
  frames.Add(Frames(256, kHeaders, kNoFlags, 0), kNow);
  EXPECT_FALSE(frames.must_end());
  frames.Add(Frame(kHeaders, kNoFlags, 0), kNow);
  EXPECT_TRUE(frames.must_end());
}

// A call, and its reset, so long after each other.
int64_t YoungResetsAfter(absl::Duration age) {
  ClientFrames frames;
  frames.Add(Preface() + Frame(kHeaders, kNoFlags, 30), kNow);
  frames.Add(Frame(kData, kNoFlags, 3), kNow + age / 2);
  frames.Add(Frame(kResetStream, kNoFlags, 4), kNow + age);
  return frames.TakeYoungResets();
}

TEST(ClientFramesTest, ResetsOfYoungCallsCount) {
  EXPECT_EQ(YoungResetsAfter(absl::ZeroDuration()), 1);
  EXPECT_EQ(YoungResetsAfter(absl::Milliseconds(9)), 1);
  EXPECT_EQ(YoungResetsAfter(absl::Milliseconds(20)), 0);
}

TEST(ClientFramesTest, ResetsAreTakenOnce) {
  ClientFrames frames;
  frames.Add(Preface() + Frames(3, kResetStream, kNoFlags, 4), kNow);
  EXPECT_EQ(frames.TakeYoungResets(), 3);
  EXPECT_EQ(frames.TakeYoungResets(), 0);
}

TEST(ResetAllowancesTest, ReadsOnWhileFewAreReset) {
  ResetAllowances allowances;
  EXPECT_LE(allowances.Add(1, 500, kNow), kNow);
  for (int i = 1; i <= 1000; ++i) {
    const absl::Time now = kNow + i * absl::Milliseconds(1);
    EXPECT_LE(allowances.Add(1, 4, now), now);
  }
}

TEST(ResetAllowancesTest, ClientThatResetsMoreWaits) {
  ResetAllowances allowances;
  EXPECT_EQ(allowances.Add(1, 500, kNow), kNow);
  EXPECT_EQ(allowances.Add(1, 40, kNow), kNow + absl::Milliseconds(10));
  const absl::Time later = kNow + absl::Milliseconds(10);
  EXPECT_EQ(allowances.Add(1, 1, later), later + absl::Microseconds(250));
  EXPECT_LE(allowances.Add(2, 1, later), later);
}

TEST(ResetAllowancesTest, WaitsForASecondAtMost) {
  ResetAllowances allowances;
  EXPECT_EQ(allowances.Add(1, 100'000, kNow), kNow + absl::Seconds(1));
}

TEST(ResetAllowancesTest, ForgetsOnlyClientsThatHavePaid) {
  ResetAllowances allowances;
  allowances.Add(0, 1000, kNow);
  for (uint64_t client = 1; client < 3000; ++client) {
    allowances.Add(client, 1, kNow);
  }
  EXPECT_GT(allowances.Add(0, 1, kNow), kNow + absl::Milliseconds(125));
}

constexpr unsigned char kHandshakeRecord = 22;
constexpr unsigned char kDataRecord = 23;

std::string Record(unsigned char type, size_t bytes) {
  std::string record = {static_cast<char>(type), 3, 3,
                        static_cast<char>(bytes >> 8),
                        static_cast<char>(bytes & 0xff)};
  return record + std::string(bytes, '\x17');
}

TEST(TlsRecordsTest, CountsHeadersAndTags) {
  TlsRecords records;
  EXPECT_EQ(records.Add(Record(kHandshakeRecord, 500)), 5);
  EXPECT_EQ(records.Add(Record(kDataRecord, 16'384)), 5 + 16);
  EXPECT_EQ(records.Add(Record(kDataRecord, 100) + Record(kDataRecord, 200)),
            42);
}

TEST(TlsRecordsTest, CountsTheSameByteByByte) {
  const std::string bytes = Record(kHandshakeRecord, 3) +
                            Record(kDataRecord, 300) + Record(kDataRecord, 20);
  TlsRecords records;
  int64_t added_bytes = 0;
  for (const char byte : bytes) added_bytes += records.Add({&byte, 1});
  EXPECT_EQ(added_bytes, 5 + 21 + 21);
}

TEST(TlsRecordsTest, CountsNoMoreThanARecordHas) {
  TlsRecords records;
  EXPECT_EQ(records.Add(Record(kDataRecord, 3)), 8);
  EXPECT_EQ(records.Add(Record(kDataRecord, 0)), 5);
}

// 16 of tag and one of data: the least of any cipher.
TEST(TlsRecordsTest, LeavesAByteOfARecordOfOne) {
  TlsRecords records;
  const std::string record = Record(kDataRecord, 17);
  EXPECT_EQ(static_cast<int64_t>(record.size()) - records.Add(record), 1);
}

}  // namespace
}  // namespace qgemm
