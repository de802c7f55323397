// SPDX-License-Identifier: Apache-2.0

#include "server/lane/packets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "lane/segment.h"
#include "tests/lane/raw_lane.h"
#include "tests/support/seeds.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& packet) {
  return std::string(ParsePacket(packet).status().message());
}

lane::Open MakeOpen(uint32_t name_bytes, uint32_t client_id_bytes) {
  lane::Open open;
  open.header.kind = lane::MessageKind::kOpen;
  open.name_bytes = name_bytes;
  open.client_id_bytes = client_id_bytes;
  return open;
}

TEST(PacketsTest, ReadsAHello) {
  lane::Hello hello = MakeHello(1000, 9);
  hello.header.sequence = 5;
  hello.token_bytes = 3;
  const auto packet = ParsePacket(ToPacket(hello, "abc"));
  ASSERT_TRUE(packet.ok()) << packet.status();
  const auto& read = std::get<HelloPacket>(*packet);
  EXPECT_EQ(read.sequence, 5u);
  EXPECT_EQ(read.operand_bytes, 1000);
  EXPECT_EQ(read.slots, 16u);  // rounded up
  EXPECT_EQ(read.token, "abc");
}

TEST(PacketsTest, LeavesTheNumberOfSlotsToTheServer) {
  const auto packet = ParsePacket(ToPacket(MakeHello(1)));
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(std::get<HelloPacket>(*packet).slots, kDefaultSlots);
}

TEST(PacketsTest, ReadsAnOpenAndAClose) {
  const auto open = ParsePacket(ToPacket(MakeOpen(5, 2), "layerme"));
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(std::get<OpenPacket>(*open).name, "layer");
  EXPECT_EQ(std::get<OpenPacket>(*open).client_id, "me");
  lane::Close close;
  close.header.kind = lane::MessageKind::kClose;
  close.handle = 77;
  const auto closed = ParsePacket(ToPacket(close));
  ASSERT_TRUE(closed.ok()) << closed.status();
  EXPECT_EQ(std::get<ClosePacket>(*closed).handle, 77u);
}

lane::Attach MakeAttach(uint64_t bytes) {
  lane::Attach attach;
  attach.header.kind = lane::MessageKind::kAttach;
  attach.bytes = bytes;
  attach.device_uuid[15] = 9;
  return attach;
}

TEST(PacketsTest, ReadsAnAttach) {
  const auto attach = ParsePacket(ToPacket(MakeAttach(4096)));
  ASSERT_TRUE(attach.ok()) << attach.status();
  EXPECT_EQ(std::get<AttachPacket>(*attach).bytes, 4096);
  EXPECT_EQ(std::get<AttachPacket>(*attach).device_uuid[15], 9);
  EXPECT_THAT(ErrorOf(ToPacket(MakeAttach(0))), HasSubstr("bytes = 0"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeAttach(~uint64_t{0}))),
              HasSubstr("bytes = 18446744073709551615"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeAttach(1), "x")),
              HasSubstr("by its fields"));
}

TEST(PacketsTest, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("has 0 bytes, of at least 16"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeHello(0))), HasSubstr("operand_bytes = 0"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeHello(~uint64_t{0}))),
              HasSubstr("operand_bytes = 18446744073709551615"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeHello(1, lane::kMaxSlots + 1))),
              HasSubstr("slots = 4097; it must be at most 4096"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeHello(1), "x")), HasSubstr("by its fields"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeOpen(2, 0), "x")),
              HasSubstr("by its fields"));
  EXPECT_THAT(ErrorOf(ToPacket(MakeOpen(129, 0))),
              HasSubstr("name_bytes = 129; it must be at most 128"));
  // Their sum is 0 in 32 bits.
  EXPECT_THAT(ErrorOf(ToPacket(MakeOpen(0x80000000u, 0x80000000u))),
              HasSubstr("name_bytes = 2147483648"));
  lane::Hello hello = MakeHello(1);
  hello.header.magic = 1;
  EXPECT_THAT(ErrorOf(ToPacket(hello)), HasSubstr("magic = 1"));
  hello = MakeHello(1);
  hello.header.version = 2;
  EXPECT_EQ(ParsePacket(ToPacket(hello)).status().code(),
            absl::StatusCode::kUnimplemented);
  hello = MakeHello(1);
  hello.header.kind = lane::MessageKind::kAccept;
  EXPECT_THAT(ErrorOf(ToPacket(hello)), HasSubstr("kind = 2"));
}

TEST(PacketsTest, TakesRandomBytesWithoutHarm) {
  RandomGenerator random(FreshSeed());
  int read = 0;
  for (int i = 0; i < 200000; ++i) {
    lane::Open legal = MakeOpen(3, 2);
    legal.header.kind = static_cast<lane::MessageKind>(random() % 10);
    std::string packet = ToPacket(legal, "abcde");
    packet.resize(random() % 64, 'x');
    for (int flips = random() % 3; flips > 0 && !packet.empty(); --flips) {
      packet[random() % packet.size()] = static_cast<char>(random());
    }
    read += ParsePacket(packet).ok();
  }
  EXPECT_GT(read, 0);
}

TEST(PacketsTest, WritesTheStatusBehindTheMessage) {
  const std::string packet =
      WritePacket(lane::Closed(), lane::MessageKind::kClosed, 9,
                  absl::NotFoundError(std::string(5000, 'x')));
  EXPECT_EQ(packet.size(), sizeof(lane::Closed) + lane::kMaxTextBytes);
  lane::Closed closed;
  packet.copy(reinterpret_cast<char*>(&closed), sizeof(closed));
  EXPECT_EQ(closed.header.sequence, 9u);
  EXPECT_EQ(closed.header.code, 5u);
  EXPECT_EQ(closed.text_bytes, lane::kMaxTextBytes);
}

}  // namespace
}  // namespace qgemm
