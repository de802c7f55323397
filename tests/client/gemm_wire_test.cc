// SPDX-License-Identifier: Apache-2.0
//
// ReadAnswer against protobuf's own parser: over random messages, however they
// are cut into slices, and over damaged ones.

#include "client/gemm_wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/gemm_wire.h"
#include "gtest/gtest.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr int kTimings = v1::GemmResponse::kTimingsFieldNumber;
constexpr int kC = v1::GemmResponse::kCFieldNumber;

// Bytes of one or several fields.
std::string Fields(const std::function<void(CodedOutputStream*)>& write) {
  std::string bytes;
  {
    StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    write(&out);
  }
  return bytes;
}

std::string BytesField(int number, absl::string_view content) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(WireFormatLite::MakeTag(
        number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out->WriteVarint32(static_cast<uint32_t>(content.size()));
    out->WriteRaw(content.data(), static_cast<int>(content.size()));
  });
}

std::string VarintField(int number, uint64_t value) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(
        WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_VARINT));
    out->WriteVarint64(value);
  });
}

std::string Fixed32Field(int number, uint32_t value) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(
        WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_FIXED32));
    out->WriteLittleEndian32(value);
  });
}

std::string Fixed64Field(int number, uint64_t value) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(
        WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_FIXED64));
    out->WriteLittleEndian64(value);
  });
}

std::string GroupField(int number, absl::string_view content) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(
        WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_START_GROUP));
    out->WriteRaw(content.data(), static_cast<int>(content.size()));
    out->WriteTag(
        WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP));
  });
}

std::string RandomBytes(std::mt19937_64* random, size_t most) {
  std::string bytes((*random)() % (most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

std::string RandomTimings(std::mt19937_64* random) {
  v1::Timings timings;
  if ((*random)() % 2) timings.set_queue_ns((*random)() >> 20);
  if ((*random)() % 2) timings.set_host_to_device_ns((*random)() >> 30);
  if ((*random)() % 2) timings.set_kernel_ns((*random)() >> 40);
  if ((*random)() % 2) timings.set_device_to_host_ns((*random)() >> 50);
  if ((*random)() % 2) timings.set_total_ns((*random)() % 200);
  if ((*random)() % 2) timings.set_launch_rows((*random)() % 1000);
  if ((*random)() % 2) timings.set_launch_requests((*random)() % 100);
  for (uint64_t op = (*random)() % 4; op > 0; --op) {
    timings.add_op_ns((*random)() >> 40);
  }
  std::string bytes = timings.SerializeAsString();
  if ((*random)() % 3 == 0) bytes += VarintField(99, (*random)());
  return bytes;
}

// A field, known or not, of the wire type it has or of another.
std::string RandomField(std::mt19937_64* random) {
  switch ((*random)() % 10) {
    case 0:
    case 1:
      return BytesField(kTimings, RandomTimings(random));
    case 2:
    case 3:
    case 4:
      return BytesField(kC, RandomBytes(random, 300));
    case 5:
      return VarintField((*random)() % 2 ? kC : 1000000, (*random)());
    case 6:
      return Fixed32Field((*random)() % 2 ? kTimings : 3, 12345);
    case 7:
      return Fixed64Field(7, (*random)());
    case 8:
      return GroupField(5, VarintField(1, 2) + BytesField(kC, "not C"));
    default:
      return BytesField(16, RandomBytes(random, 40));
  }
}

// Any number of fields in any order.
std::string RandomMessage(std::mt19937_64* random) {
  std::string message;
  const uint64_t fields = (*random)() % 6;
  for (uint64_t i = 0; i < fields; ++i) message += RandomField(random);
  return message;
}

grpc::ByteBuffer BufferOf(const std::vector<absl::string_view>& pieces) {
  std::vector<grpc::Slice> slices;
  for (absl::string_view piece : pieces) {
    slices.emplace_back(piece.data(), piece.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// Some of them empty.
std::vector<absl::string_view> RandomPieces(absl::string_view message,
                                            std::mt19937_64* random) {
  std::vector<size_t> cuts = {0, message.size()};
  for (uint64_t i = (*random)() % 6; i > 0; --i) {
    cuts.push_back((*random)() % (message.size() + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<absl::string_view> pieces;
  for (size_t i = 1; i < cuts.size(); ++i) {
    pieces.push_back(message.substr(cuts[i - 1], cuts[i] - cuts[i - 1]));
  }
  return pieces;
}

void ExpectEqual(const Timings& actual, const Timings& expected) {
  EXPECT_EQ(actual.queue, expected.queue);
  EXPECT_EQ(actual.host_to_device, expected.host_to_device);
  EXPECT_EQ(actual.kernel, expected.kernel);
  EXPECT_EQ(actual.device_to_host, expected.device_to_host);
  EXPECT_EQ(actual.total, expected.total);
  EXPECT_EQ(actual.launch_rows, expected.launch_rows);
  EXPECT_EQ(actual.launch_requests, expected.launch_requests);
  EXPECT_EQ(actual.ops, expected.ops);
}

// The fields one by one, or nothing if they are not well formed. Numbers may
// take more bytes than they need, which protobuf's parser refuses.
std::optional<v1::GemmResponse> ParseByFields(const std::string& message) {
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(message)) return std::nullopt;
  v1::GemmResponse response;
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (field.number() == kC) response.set_c(field.length_delimited());
    if (field.number() != kTimings) continue;
    v1::Timings timings;
    if (!timings.ParseFromString(field.length_delimited())) {
      return std::nullopt;
    }
    response.mutable_timings()->MergeFrom(timings);
  }
  return response;
}

// Reads the pieces and compares with what protobuf reads of them. `answer` may
// hold another.
void ExpectReadAsByProtobuf(const std::vector<absl::string_view>& pieces,
                            AnswerView* answer) {
  const std::string whole = absl::StrJoin(pieces, "");
  SCOPED_TRACE(
      absl::StrCat("pieces of ",
                   absl::StrJoin(pieces, ", ", [](std::string* out, auto part) {
                     absl::StrAppend(out, part.size());
                   })));
  SCOPED_TRACE(absl::BytesToHexString(whole));
  v1::GemmResponse expected;
  const bool parses = expected.ParseFromString(whole);
  grpc::ByteBuffer buffer = BufferOf(pieces);
  const absl::Status status = ReadAnswer(&buffer, answer);
  if (!status.ok()) {
    EXPECT_FALSE(parses) << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(answer->c.empty());
    ExpectEqual(answer->timings, Timings());
    return;
  }
  if (!parses) {
    const std::optional<v1::GemmResponse> by_fields = ParseByFields(whole);
    ASSERT_TRUE(by_fields.has_value()) << "a damaged answer was read";
    expected = *by_fields;
  }
  ASSERT_EQ(absl::StrJoin(answer->c, ""), expected.c());
  ExpectEqual(answer->timings, FromWire(expected.timings()));
}

class AnswerReaderTest : public testing::Test {
 protected:
  void Expect(const std::vector<absl::string_view>& pieces) {
    ExpectReadAsByProtobuf(pieces, &answer_);
  }

  const uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  AnswerView answer_;
};

TEST_F(AnswerReaderTest, AnEmptyMessageIsAnEmptyAnswer) {
  Expect({""});
  EXPECT_TRUE(answer_.c.empty());
}

TEST_F(AnswerReaderTest, RandomMessagesInRandomPieces) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    Expect(RandomPieces(RandomMessage(&random_), &random_));
  }
}

// A message with all that there is.
std::string RichMessage() {
  v1::Timings timings;
  timings.set_queue_ns(300);
  timings.set_kernel_ns(70000);
  timings.set_launch_rows(3);
  return BytesField(kC, "first") +
         BytesField(kTimings, timings.SerializeAsString()) +
         VarintField(200, 1 << 20) + GroupField(6, VarintField(1, 2)) +
         BytesField(kTimings, VarintField(6, 300)) +
         BytesField(kC, "the last C counts");
}

TEST_F(AnswerReaderTest, EveryCutIntoThreePieces) {
  const std::string whole = RichMessage();
  const absl::string_view message = whole;
  for (size_t first = 0; first <= message.size(); ++first) {
    for (size_t second = first; second <= message.size(); ++second) {
      Expect({message.substr(0, first), message.substr(first, second - first),
              message.substr(second)});
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(AnswerReaderTest, EveryByteAPiece) {
  const std::string whole = RichMessage();
  std::vector<absl::string_view> pieces;
  for (size_t i = 0; i < whole.size(); ++i) {
    pieces.push_back(absl::string_view(whole).substr(i, 1));
  }
  Expect(pieces);
}

TEST_F(AnswerReaderTest, EveryTruncation) {
  const std::string whole = RichMessage();
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::string_view message = absl::string_view(whole).substr(0, size);
    Expect({message});
    Expect({message.substr(0, size / 2), message.substr(size / 2)});
    ASSERT_FALSE(HasFailure()) << size << " bytes";
  }
}

TEST_F(AnswerReaderTest, EveryByteDamaged) {
  const std::string whole = RichMessage();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(value);
      const absl::string_view message = damaged;
      Expect({message.substr(0, i), message.substr(i)});
      ASSERT_FALSE(HasFailure()) << "byte " << i << " is " << value;
    }
  }
}

TEST_F(AnswerReaderTest, RandomDamage) {
  SCOPED_TRACE(testing::Message() << "seed " << seed_);
  for (int i = 0; i < 50000 && !HasFailure(); ++i) {
    std::string message = RandomMessage(&random_);
    for (int flips = 0; flips < 3 && !message.empty(); ++flips) {
      message[random_() % message.size()] = static_cast<char>(random_());
    }
    message.resize(random_() % (message.size() + 1));
    Expect(RandomPieces(message, &random_));
  }
}

// `field` with a length that no message has.
std::string WithLength(int field, uint64_t length) {
  return Fields([&](CodedOutputStream* out) {
    out->WriteTag(WireFormatLite::MakeTag(
        field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out->WriteVarint64(length);
  });
}

TEST_F(AnswerReaderTest, LengthsBeyondTheMessage) {
  for (const int field : {kTimings, kC, 77}) {
    for (const uint64_t length :
         {uint64_t{5}, uint64_t{0x7fffffff}, uint64_t{0x80000000},
          uint64_t{0xffffffff}, uint64_t{0x100000002},
          uint64_t{0x8000000000000002}, ~uint64_t{0}}) {
      SCOPED_TRACE(absl::StrCat("field ", field, ", length ", length));
      const std::string message =
          WithLength(field, length) + VarintField(1, 2) + VarintField(6, 3);
      const absl::string_view view = message;
      const size_t half = view.size() / 2;
      Expect({view.substr(0, half)});
      Expect({view});
      Expect({view.substr(0, half), view.substr(half)});
    }
  }
}

TEST_F(AnswerReaderTest, LargeResultsAreBorrowedNotCopied) {
  const std::string c(1 << 20, 'c');
  const grpc::Slice header(BytesField(kC, c).substr(0, 4));
  const grpc::Slice body(c.data(), c.size(), grpc::Slice::STATIC_SLICE);
  const grpc::Slice slices[] = {header, body};
  grpc::ByteBuffer buffer(slices, 2);
  ASSERT_TRUE(ReadAnswer(&buffer, &answer_).ok());
  ASSERT_EQ(answer_.c.size(), 1);
  EXPECT_EQ(answer_.c[0].data(), c.data());
  EXPECT_EQ(answer_.c[0].size(), c.size());
}

TEST_F(AnswerReaderTest, ABufferWithoutBytesIsNoAnswer) {
  grpc::ByteBuffer buffer;
  EXPECT_EQ(ReadAnswer(&buffer, &answer_).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace qgemm
