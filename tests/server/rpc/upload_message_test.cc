// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/upload_message.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/message_limits.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// As gRPC receives it: in slices.
grpc::ByteBuffer BufferOf(const std::string& bytes) {
  constexpr size_t kSliceBytes = 8192;
  std::vector<grpc::Slice> slices;
  for (size_t offset = 0; offset < bytes.size(); offset += kSliceBytes) {
    slices.emplace_back(bytes.substr(offset, kSliceBytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status Read(const std::string& bytes, v1::LoadWeightsRequest* message) {
  grpc::ByteBuffer buffer = BufferOf(bytes);
  return ReadUploadMessage(&buffer, message);
}

v1::LoadWeightsRequest ChunkOf(int64_t bytes) {
  v1::LoadWeightsRequest message;
  message.mutable_chunk()->set_section(v1::SECTION_CODES);
  message.mutable_chunk()->set_offset(7);
  message.mutable_chunk()->set_crc32c(9);
  message.mutable_chunk()->set_bytes(std::string(bytes, 'x'));
  return message;
}

// Fields that no message has, of three bytes each.
std::string UnknownFields(int64_t bytes) {
  std::string fields;
  while (static_cast<int64_t>(fields.size()) < bytes) {
    fields.append("\x9a\x06\x00", 3);
  }
  return fields;
}

TEST(UploadMessage, ReadsHeadersAndChunksOfAnySize) {
  v1::LoadWeightsRequest header;
  header.mutable_header()->set_name("layer");
  header.mutable_header()->set_n(7);
  for (const v1::LoadWeightsRequest& sent :
       {header, ChunkOf(0), ChunkOf(5), ChunkOf(kMaxFieldBytes),
        ChunkOf(3 << 20)}) {
    v1::LoadWeightsRequest read;
    const absl::Status status = Read(sent.SerializeAsString(), &read);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(read.SerializeAsString(), sent.SerializeAsString());
  }
}

TEST(UploadMessage, ReadsAFewUnknownFields) {
  v1::LoadWeightsRequest read;
  const std::string bytes =
      ChunkOf(1 << 20).SerializeAsString() + UnknownFields(1000);
  EXPECT_TRUE(Read(bytes, &read).ok());
  EXPECT_EQ(read.chunk().bytes().size(), 1u << 20);
}

TEST(UploadMessage, RefusesManyUnknownFieldsWithoutParsingThem) {
  const std::string chunk = ChunkOf(1 << 20).SerializeAsString();
  const std::string unknown = UnknownFields(2 * kMaxFieldBytes);
  for (const std::string& bytes : {unknown, chunk + unknown, unknown + chunk}) {
    v1::LoadWeightsRequest read;
    const absl::Status status = Read(bytes, &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("beside those of its chunk"));
    EXPECT_EQ(read.ByteSizeLong(), 0u);
  }
}

TEST(UploadMessage, RefusesManyUnknownFieldsInsideTheChunk) {
  v1::LoadWeightsRequest message;
  message.mutable_chunk()->ParseFromString(UnknownFields(2 * kMaxFieldBytes));
  v1::LoadWeightsRequest read;
  EXPECT_EQ(Read(message.SerializeAsString(), &read).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(UploadMessage, SaysThatAMessageDoesNotParse) {
  const std::string chunk = ChunkOf(1 << 20).SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xff\xff"), chunk.substr(0, chunk.size() - 1),
        std::string(100000, '\xff'), std::string(100000, '\0')}) {
    v1::LoadWeightsRequest read;
    const absl::Status status = Read(bytes, &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr("does not parse as qgemm.v1.LoadWeightsRequest"));
  }
}

v1::LoadProgramRequest ProgramOf(int constants, int64_t constant_bytes) {
  v1::LoadProgramRequest message;
  message.set_name("layer");
  message.mutable_program()->set_revision(1);
  for (int i = 0; i < constants; ++i) {
    v1::Program::Constant* added = message.mutable_program()->add_constants();
    added->set_name("c");
    added->set_values(std::string(constant_bytes, 'x'));
  }
  return message;
}

absl::Status Read(const std::string& bytes, v1::LoadProgramRequest* message) {
  grpc::ByteBuffer buffer = BufferOf(bytes);
  return ReadProgramMessage(&buffer, message);
}

TEST(ProgramMessage, ReadsConstantsUpToTheLimit) {
  for (const v1::LoadProgramRequest& sent :
       {ProgramOf(0, 0), ProgramOf(3, 5), ProgramOf(1, 1 << 20),
        ProgramOf(128, 8192)}) {
    v1::LoadProgramRequest read;
    const absl::Status status = Read(sent.SerializeAsString(), &read);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(read.SerializeAsString(), sent.SerializeAsString());
  }
}

TEST(ProgramMessage, RefusesLongerConstantsWithoutParsingThem) {
  for (const v1::LoadProgramRequest& sent :
       {ProgramOf(1, (1 << 20) + 1), ProgramOf(300, 8192)}) {
    v1::LoadProgramRequest read;
    const absl::Status status = Read(sent.SerializeAsString(), &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("bytes in all; at most 1048576"));
    EXPECT_EQ(read.ByteSizeLong(), 0u);
  }
}

TEST(ProgramMessage, RefusesManySmallFieldsWithoutParsingThem) {
  v1::LoadProgramRequest ops = ProgramOf(1, 1 << 20);
  for (int i = 0; i < kMaxFieldBytes; ++i) ops.mutable_program()->add_ops();
  v1::LoadProgramRequest inside = ProgramOf(1, 1 << 20);
  inside.mutable_program()->mutable_constants(0)->MergeFromString(
      UnknownFields(2 * kMaxFieldBytes));
  for (const std::string& bytes :
       {ops.SerializeAsString(), inside.SerializeAsString(),
        ProgramOf(kMaxFieldBytes, 1).SerializeAsString(),
        UnknownFields(2 * kMaxFieldBytes)}) {
    v1::LoadProgramRequest read;
    const absl::Status status = Read(bytes, &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("beside those of its constants"));
    EXPECT_EQ(read.ByteSizeLong(), 0u);
  }
}

// A message inside whose last field ends behind it.
TEST(ProgramMessage, SaysThatAMessageDoesNotParse) {
  const std::string program = ProgramOf(1, 1 << 20).SerializeAsString();
  for (const std::string& bytes :
       {program.substr(0, program.size() - 1), std::string(100000, '\xff'),
        std::string("\x12\x04\x22\x02\x1a\x70") + std::string(100000, 'x')}) {
    v1::LoadProgramRequest read;
    const absl::Status status = Read(bytes, &read);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr("does not parse as qgemm.v1.LoadProgramRequest"));
  }
}

}  // namespace
}  // namespace qgemm
