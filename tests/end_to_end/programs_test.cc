// SPDX-License-Identifier: Apache-2.0
//
// Programs through the wire: loaded, described, unloaded, and refused before
// they cost anything. The Python suite has more of the same.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/weights/weight_store.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kN = 64;
constexpr int64_t kK = 32;

constexpr char kProgram[] = R"pb(
  revision: 1
  value_type: NUMBER_TYPE_FP32
  inputs { name: "x" width: 32 }
  ops { gemm { x: 0 weights: "layer" } }
  ops {
    name: "hidden"
    type: NUMBER_TYPE_BF16
    act { x: 1 kind: KIND_SILU }
  }
  ops { top_k { x: 2 k: 4 } }
  outputs: [ 2, 4 ]
)pb";

// The sum of an input of that width and a constant of `constant_bytes`.
v1::Program SumProgram(int64_t width, int64_t constant_bytes) {
  v1::Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        revision: 1
        value_type: NUMBER_TYPE_FP32
        inputs {}
        constants {}
        ops { add { x: 0 y: 1 } }
        outputs: 2
      )pb",
      &program));
  program.mutable_inputs(0)->set_width(width);
  program.mutable_constants(0)->set_values(std::string(constant_bytes, '\0'));
  return program;
}

ServerOptions ReferenceServer() {
  ServerOptions options;
  options.backend.kind = BackendKind::kReference;
  return options;
}

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() { LoadLayer(client_, kN, kK, &random_); }

  Answer<v1::LoadProgramResponse> Load(const v1::Program& program,
                                       const std::string& name) const {
    grpc::ClientContext context;
    v1::LoadProgramRequest request;
    request.set_name(name);
    *request.mutable_program() = program;
    Answer<v1::LoadProgramResponse> answer;
    answer.status =
        client_.stub()->LoadProgram(&context, request, &answer.response);
    return answer;
  }

  Answer<v1::LoadProgramResponse> LoadText(const std::string& name) const {
    v1::Program program;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kProgram, &program));
    return Load(program, name);
  }

  Answer<v1::GetProgramResponse> Get(const std::string& name_or_id) const {
    grpc::ClientContext context;
    v1::GetProgramRequest request;
    request.set_program(name_or_id);
    Answer<v1::GetProgramResponse> answer;
    answer.status =
        client_.stub()->GetProgram(&context, request, &answer.response);
    return answer;
  }

  Answer<v1::UnloadProgramResponse> Unload(
      const std::string& name_or_id) const {
    grpc::ClientContext context;
    v1::UnloadProgramRequest request;
    request.set_program(name_or_id);
    Answer<v1::UnloadProgramResponse> answer;
    answer.status =
        client_.stub()->UnloadProgram(&context, request, &answer.response);
    return answer;
  }

  // The programs of all pages of that size.
  std::vector<v1::ProgramInfo> List(uint32_t page_size) const {
    std::vector<v1::ProgramInfo> programs;
    v1::ListProgramsRequest request;
    request.set_page_size(page_size);
    do {
      grpc::ClientContext context;
      v1::ListProgramsResponse page;
      const grpc::Status status =
          client_.stub()->ListPrograms(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::ProgramInfo& info : page.programs()) {
        programs.push_back(info);
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return programs;
  }

  RandomGenerator random_{FreshSeed()};
  TestServer server_{ReferenceServer()};
  const Client client_ = server_.NewClient();
};

TEST_F(ProgramsTest, DescribesAProgramByItsValuesWeightsAndText) {
  const auto loaded = LoadText("program");
  ASSERT_TRUE(loaded.ok()) << loaded.status.error_message();
  EXPECT_FALSE(loaded.response.deduplicated());
  const v1::ProgramInfo& info = loaded.response.program();
  EXPECT_THAT(info.names(), ElementsAre("program"));
  EXPECT_EQ(info.name_count(), 1u);
  EXPECT_EQ(info.ops(), 3u);
  ASSERT_EQ(info.inputs_size(), 1);
  EXPECT_EQ(info.inputs(0).name(), "x");
  EXPECT_EQ(info.inputs(0).type(), v1::NUMBER_TYPE_FP32);
  EXPECT_EQ(info.inputs(0).width(), 32u);
  ASSERT_EQ(info.outputs_size(), 2);
  EXPECT_EQ(info.outputs(0).name(), "hidden");
  EXPECT_EQ(info.outputs(0).type(), v1::NUMBER_TYPE_BF16);
  EXPECT_EQ(info.outputs(0).width(), 64u);
  EXPECT_EQ(info.outputs(1).type(), v1::NUMBER_TYPE_INT32);
  EXPECT_EQ(info.input_row_bytes(), 32u * 4);
  EXPECT_EQ(info.output_row_bytes(), 64u * 2 + 4u * 4);
  const std::string layer = client_.Get("layer").response.weights().id();
  EXPECT_THAT(info.weights(), ElementsAre(layer));
  EXPECT_THAT(info.text(), HasSubstr("gemm fp32 x=0 weights=" + layer));
  EXPECT_EQ(Get(info.id()).response.program().SerializeAsString(),
            info.SerializeAsString());
}

TEST_F(ProgramsTest, CountsAndListsPrograms) {
  EXPECT_EQ(client_.Info().program_revision(), 1u);
  EXPECT_EQ(client_.Info().programs(), 0u);
  for (int64_t width = 1; width <= 5; ++width) {
    ASSERT_TRUE(Load(SumProgram(width, 4 * width), "").ok());
  }
  ASSERT_TRUE(LoadText("program").ok());
  EXPECT_EQ(client_.Info().programs(), 6u);
  for (const uint32_t page_size : {0, 1, 4, 6}) {
    const std::vector<v1::ProgramInfo> listed = List(page_size);
    ASSERT_EQ(listed.size(), 6u);
    EXPECT_THAT(listed[0].names(), ElementsAre("program"));
    EXPECT_EQ(listed[0].text(), "");
    EXPECT_GT(listed[0].resident_bytes(), 0u);
  }
}

TEST_F(ProgramsTest, KeepsItsWeightsAndGivesTheirMemoryBack) {
  const auto layer = client_.Get("layer").response.weights();
  const auto loaded = LoadText("program").response.program();
  EXPECT_EQ(client_.Info().weights_bytes(),
            layer.resident_bytes() + kLayerRecordBytes +
                loaded.resident_bytes() + 2 * kNameRecordBytes);
  ASSERT_TRUE(client_.Unload("layer").ok());
  EXPECT_THAT(Get("program").response.program().weights(),
              ElementsAre(layer.id()));
  EXPECT_EQ(client_.Info().weights_bytes(),
            layer.resident_bytes() + kLayerRecordBytes +
                loaded.resident_bytes() + kNameRecordBytes);
  EXPECT_EQ(LoadText("program").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Unload("program").response.freed());
  EXPECT_EQ(client_.Info().weights_bytes(), 0u);
}

TEST_F(ProgramsTest, OfManyLoadsAtOnceOneIsNew) {
  constexpr int kThreads = 8;
  std::atomic<int> fresh{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, &fresh] {
      const auto loaded = LoadText("program/" + std::to_string(i));
      EXPECT_TRUE(loaded.ok()) << loaded.status.error_message();
      if (!loaded.response.deduplicated()) ++fresh;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(List(0).size(), 1u);
  EXPECT_EQ(Get("program/0").response.program().name_count(), 8u);
}

TEST_F(ProgramsTest, TakesConstantsUpToTheLimitAndNoMore) {
  const auto largest = Load(SumProgram(1 << 18, 1 << 20), "");
  EXPECT_TRUE(largest.ok()) << largest.status.error_message();
  EXPECT_GT(largest.response.program().resident_bytes(), 1u << 20);
  for (const int64_t bytes : {(1 << 20) + 4, 16 << 20}) {
    const grpc::Status status = Load(SumProgram(1 << 18, bytes), "").status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("bytes in all; at most 1048576"));
  }
}

TEST_F(ProgramsTest, RefusesFieldsByTheHundredThousand) {
  v1::Program program;
  program.set_revision(1);
  for (int i = 0; i < 1 << 20; ++i) program.add_ops();
  const grpc::Status status = Load(program, "").status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("it may have at most 65536"));
}

TEST(ProgramLimitsTest, TheFlagsBoundProgramsAndTheirNames) {
  ServerOptions options = ReferenceServer();
  options.max_programs = 1;
  options.max_program_names = 1;
  TestServer server(options);
  const Client client = server.NewClient();
  const auto load = [&client](int64_t width, const std::string& name) {
    grpc::ClientContext context;
    v1::LoadProgramRequest request;
    request.set_name(name);
    *request.mutable_program() = SumProgram(width, 4 * width);
    v1::LoadProgramResponse response;
    return client.stub()->LoadProgram(&context, request, &response);
  };
  EXPECT_TRUE(load(1, "a").ok());
  EXPECT_THAT(load(2, "").error_message(), HasSubstr("--max_programs"));
  EXPECT_THAT(load(1, "b").error_message(), HasSubstr("--max_program_names"));
}

TEST_F(ProgramsTest, TimesOfOpsComeOnRequest) {
  ASSERT_TRUE(LoadText("program").ok());
  v1::RunRequest request;
  request.set_program("program");
  request.set_m(3);
  request.set_inputs(std::string(3 * kK * sizeof(float), '\0'));
  v1::RunResponse answers[2];
  for (const bool time_ops : {false, true}) {
    request.set_time_ops(time_ops);
    grpc::ClientContext context;
    const grpc::Status status =
        client_.stub()->Run(&context, request, &answers[time_ops]);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(answers[false].timings().op_ns_size(), 0);
  EXPECT_EQ(answers[true].timings().op_ns_size(), 3);
  EXPECT_EQ(answers[true].outputs(), answers[false].outputs());
}

}  // namespace
}  // namespace qgemm
