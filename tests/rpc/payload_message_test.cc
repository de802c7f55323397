// SPDX-License-Identifier: Apache-2.0
//
// Reading against Protobuf's parser, over legal and damaged messages cut into
// slices anywhere; writing, and when what is written is given back.

#include "rpc/payload_message.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "qgemm/v1/qgemm.pb.h"
#include "rpc/message_limits.h"
#include "tests/rpc/payload_differential.h"

namespace qgemm {
namespace {

class PayloadMessageTest : public testing::Test {
 protected:
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  std::string RandomBytes(size_t most) {
    std::string bytes(Below(most + 1), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  // A message with some of its fields, and sometimes an unknown one.
  std::string RandomMessage() {
    v1::GemmRequest request;
    if (Below(2) == 0) request.set_weights(std::string(Below(40), 'w'));
    if (Below(2) == 0) request.set_m(random_() >> Below(64));
    if (Below(2) == 0) {
      request.set_a_type(static_cast<v1::FloatType>(Below(6)));
    }
    if (Below(2) == 0) request.set_mode(v1::COMPUTE_MODE_A8);
    if (Below(2) == 0) request.set_a(RandomBytes(200));
    std::string bytes = request.SerializeAsString();
    if (Below(3) == 0) {  // field 100 + i, a varint
      bytes += absl::StrCat("\xa0\x06", std::string(1, char(Below(128))));
    }
    return bytes;
  }

  // Messages one after the other are one message, with fields twice and in
  // another order.
  std::string RandomConcatenation() {
    std::string bytes;
    for (uint64_t i = Below(3) + 1; i > 0; --i) bytes += RandomMessage();
    return bytes;
  }

  void Damage(std::string* bytes) {
    switch (Below(4)) {
      case 0:
        bytes->resize(Below(bytes->size() + 1));
        return;
      case 1:
        bytes->insert(Below(bytes->size() + 1), RandomBytes(4));
        return;
      default:
        for (uint64_t i = Below(3) + 1; i > 0 && !bytes->empty(); --i) {
          (*bytes)[Below(bytes->size())] = static_cast<char>(random_());
        }
    }
  }

  std::vector<size_t> RandomLengths() {
    std::vector<size_t> lengths(Below(5));
    for (size_t& length : lengths) length = Below(60);
    return lengths;
  }

  const uint32_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  std::mt19937_64 random_{seed_};
};

TEST_F(PayloadMessageTest, ReadsWhatProtobufReads) {
  for (int i = 0; i < 20000; ++i) {
    const std::string bytes = RandomConcatenation();
    ASSERT_EQ(DifferenceOfParsers(bytes, RandomLengths()), "")
        << absl::BytesToHexString(bytes);
  }
}

TEST_F(PayloadMessageTest, RefusesWhatProtobufRefuses) {
  for (int i = 0; i < 60000; ++i) {
    std::string bytes = RandomConcatenation();
    Damage(&bytes);
    ASSERT_EQ(DifferenceOfParsers(bytes, RandomLengths()), "")
        << absl::BytesToHexString(bytes);
  }
}

TEST_F(PayloadMessageTest, ReadsAcrossEveryBoundary) {
  v1::GemmRequest request;
  request.set_weights("layer");
  request.set_m(300);
  request.set_a("an operand of some length");
  const std::string bytes = request.SerializeAsString();
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = 0; first + second <= bytes.size(); ++second) {
      ASSERT_EQ(DifferenceOfParsers(bytes, {first, second}), "");
    }
  }
}

TEST_F(PayloadMessageTest, AnEmptyMessageHasNoPayload) {
  EXPECT_EQ(DifferenceOfParsers("", {}), "");
}

TEST_F(PayloadMessageTest, SaysWhichMessageDoesNotParse) {
  grpc::ByteBuffer buffer = Sliced(
      "\x7a\x05"
      "abc",
      {});
  v1::GemmRequest header;
  ReceivedPayload payload;
  const absl::Status status = ReadPayloadMessage(&buffer, &header, &payload);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the message does not parse as qgemm.v1.GemmRequest");
  EXPECT_TRUE(payload.pieces.empty());
}

// One field of a GemmRequest, over and over, to that many bytes and more.
std::string Repeated(const std::string& field, size_t bytes) {
  std::string message;
  while (message.size() < bytes) message += field;
  return message;
}

TEST_F(PayloadMessageTest, ParsesNoFloodOfFields) {
  v1::GemmRequest request;
  request.set_a(std::string(1 << 20, 'a'));
  const std::string operand = request.SerializeAsString();
  for (const std::string& field :
       {std::string("\x9a\x06\x00", 3),      // 99: an empty string
        std::string("\x58\x01"),             // 11: a varint
        std::string("\x0a\x01w"),            // weights
        std::string("\x5d") + "1234",        // 11: fixed32
        std::string("\x7a\x00", 2),          // the operand, empty
        std::string("\x93\x06\x94\x06")}) {  // 98: a group
    const std::string few = Repeated(field, 1 << 10);
    EXPECT_EQ(DifferenceOfParsers(few, RandomLengths()), "")
        << absl::BytesToHexString(field);
    for (const std::string& flood :
         {Repeated(field, 1 << 19), Repeated(field, 1 << 19) + operand}) {
      grpc::ByteBuffer buffer = Sliced(flood, RandomLengths());
      v1::GemmRequest header;
      ReceivedPayload payload;
      const absl::Status status =
          ReadPayloadMessage(&buffer, &header, &payload);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << absl::BytesToHexString(field);
      EXPECT_EQ(header.ByteSizeLong(), 0u);  // nothing of it was parsed
      EXPECT_TRUE(payload.pieces.empty());
    }
  }
}

TEST_F(PayloadMessageTest, OneLongFieldIsRefusedBeforeItIsCopied) {
  v1::GemmRequest request;
  request.set_weights(std::string(kMaxFieldBytes, 'w'));
  request.set_a("a");
  grpc::ByteBuffer buffer = Sliced(request.SerializeAsString(), {});
  v1::GemmRequest header;
  ReceivedPayload payload;
  EXPECT_EQ(ReadPayloadMessage(&buffer, &header, &payload),
            absl::InvalidArgumentError(
                "the fields of qgemm.v1.GemmRequest beside field 15 have more "
                "than 65536 bytes; send fewer, and no unknown ones"));
  request.set_weights(std::string(kMaxFieldBytes - 100, 'w'));
  EXPECT_EQ(DifferenceOfParsers(request.SerializeAsString(), {}), "");
}

TEST_F(PayloadMessageTest, ALargeOperandIsNoFlood) {
  v1::GemmRequest request;
  request.set_weights("layer");
  request.set_a(std::string(1 << 20, 'a'));
  const std::string bytes = request.SerializeAsString();
  EXPECT_EQ(DifferenceOfParsers(bytes + bytes, RandomLengths()), "");
}

TEST_F(PayloadMessageTest, ABoundedMessageIsParsedWithinItsBound) {
  v1::GemmRequest request;
  request.set_weights("layer");
  const std::string bytes = request.SerializeAsString();
  const auto size = static_cast<int64_t>(bytes.size());
  v1::GemmRequest read;
  grpc::ByteBuffer buffer = Sliced(bytes, {3});
  EXPECT_TRUE(ReadBoundedMessage(&buffer, size, &read).ok());
  EXPECT_EQ(read.weights(), "layer");
  buffer = Sliced(bytes, {3});
  EXPECT_EQ(ReadBoundedMessage(&buffer, size - 1, &read),
            absl::ResourceExhaustedError(
                "a qgemm.v1.GemmRequest of 7 bytes; it may have 6"));
  buffer = Sliced(bytes.substr(1), {});
  EXPECT_EQ(ReadBoundedMessage(&buffer, size, &read).code(),
            absl::StatusCode::kInvalidArgument);
  grpc::ByteBuffer none;
  EXPECT_EQ(ReadBoundedMessage(&none, size, &read).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PayloadMessageTest, SlicesAreGivenBackOneByOne) {
  const std::vector<uint8_t> c(2500, 'c');
  v1::GemmResponse header;
  header.mutable_timings()->set_kernel_ns(77);
  int made = 0;
  int released = 0;
  {
    grpc::ByteBuffer message = WriteSlicedPayloadMessage(header, c, 1000, [&] {
      ++made;
      return [&] { ++released; };
    });
    grpc::Slice whole;
    ASSERT_TRUE(message.DumpToSingleSlice(&whole).ok());
    v1::GemmResponse read;
    ASSERT_TRUE(read.ParseFromArray(whole.begin(), whole.size()));
    EXPECT_EQ(read.timings().kernel_ns(), 77u);
    EXPECT_EQ(read.c(), std::string(2500, 'c'));
    EXPECT_EQ(made, 3);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 3);
}

TEST_F(PayloadMessageTest, WritesWhatProtobufReadsAndGivesBack) {
  v1::GemmResponse header;
  header.mutable_timings()->set_kernel_ns(77);
  for (int64_t size : {1, 127, 128, 20000}) {
    const std::vector<uint8_t> c(size, 'c');
    int released = 0;
    {
      grpc::ByteBuffer message =
          WritePayloadMessage(header, c, [&] { ++released; });
      grpc::Slice whole;
      ASSERT_TRUE(message.DumpToSingleSlice(&whole).ok());
      v1::GemmResponse read;
      ASSERT_TRUE(read.ParseFromArray(whole.begin(), whole.size()));
      EXPECT_EQ(read.timings().kernel_ns(), 77u);
      EXPECT_EQ(read.c(), std::string(size, 'c'));
      EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1);
  }
}

TEST_F(PayloadMessageTest, ThePayloadIsSentFromWhereItIs) {
  const std::vector<uint8_t> c(5000, 'c');
  grpc::ByteBuffer message = WritePayloadMessage(v1::GemmResponse(), c, [] {});
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].begin(), c.data());
}

}  // namespace
}  // namespace qgemm
