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

TEST(ClientFramesTest, ReadsOnWhileFewAreReset) {
  ClientFrames frames;
  frames.Add(Preface() + Frames(250, kResetStream, kNoFlags, 4), kNow);
  EXPECT_LE(frames.read_after(), kNow);
  for (int i = 1; i <= 1000; ++i) {
    const absl::Time now = kNow + i * absl::Milliseconds(1);
    frames.Add(Frames(2, kResetStream, kNoFlags, 4), now);
    EXPECT_LE(frames.read_after(), now);
  }
}

TEST(ClientFramesTest, WaitsAfterManyResets) {
  ClientFrames frames;
  frames.Add(Preface() + Frames(250, kResetStream, kNoFlags, 4), kNow);
  frames.Add(Frames(20, kResetStream, kNoFlags, 4), kNow);
  EXPECT_EQ(frames.read_after(), kNow + absl::Milliseconds(10));
  const absl::Time later = kNow + absl::Milliseconds(10);
  frames.Add(Frame(kResetStream, kNoFlags, 4), later);
  EXPECT_EQ(frames.read_after(), later + absl::Microseconds(500));
}

TEST(ClientFramesTest, WaitsForASecondAtMost) {
  ClientFrames frames;
  frames.Add(Preface() + Frames(10'000, kResetStream, kNoFlags, 4), kNow);
  EXPECT_EQ(frames.read_after(), kNow + absl::Seconds(1));
}

}  // namespace
}  // namespace qgemm
