// SPDX-License-Identifier: Apache-2.0

#include "server/net/first_frames.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace qgemm {
namespace {

enum FrameType : char { kData = 0, kHeaders = 1, kSettings = 4 };
constexpr char kNoFlags = 0;
constexpr char kAck = 1;

std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

// A frame of stream 1 with so many bytes that look like other frames.
std::string Frame(FrameType type, char flags, size_t payload_bytes) {
  const std::string length = {static_cast<char>(payload_bytes >> 16),
                              static_cast<char>(payload_bytes >> 8),
                              static_cast<char>(payload_bytes)};
  return absl::StrCat(length, std::string({type, flags, 0, 0, 0, 1}),
                      std::string(payload_bytes, kHeaders));
}

TEST(FirstFramesTest, CountsCallsUntilTheAcknowledgement) {
  FirstFrames frames;
  frames.Add(Preface());
  frames.Add(Frame(kSettings, kNoFlags, 12));
  frames.Add(Frame(kHeaders, kNoFlags, 30));
  frames.Add(Frame(kData, kNoFlags, 70'000));
  frames.Add(Frame(kHeaders, kNoFlags, 0));
  EXPECT_EQ(frames.calls(), 2);
  EXPECT_FALSE(frames.acknowledged());
  frames.Add(Frame(kSettings, kAck, 0) + Frame(kHeaders, kNoFlags, 9));
  EXPECT_EQ(frames.calls(), 2);
  EXPECT_TRUE(frames.acknowledged());
}

TEST(FirstFramesTest, BytesMayComeInAnyPieces) {
  const std::string bytes =
      Preface() + Frame(kHeaders, kNoFlags, 20) + Frame(kData, kNoFlags, 300) +
      Frame(kHeaders, kNoFlags, 1) + Frame(kSettings, kAck, 0);
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    FirstFrames frames;
    for (size_t i = 0; i < bytes.size(); i += piece) {
      EXPECT_FALSE(frames.acknowledged());
      frames.Add(absl::string_view(bytes).substr(i, piece));
    }
    EXPECT_EQ(frames.calls(), 2) << "in pieces of " << piece;
    EXPECT_TRUE(frames.acknowledged()) << "in pieces of " << piece;
  }
}

TEST(FirstFramesTest, PrefaceIsNoFrame) {
  FirstFrames frames;
  frames.Add(std::string(24, kHeaders));
  EXPECT_EQ(frames.calls(), 0);
  frames.Add(Frame(kHeaders, kNoFlags, 0));
  EXPECT_EQ(frames.calls(), 1);
}

}  // namespace
}  // namespace qgemm
