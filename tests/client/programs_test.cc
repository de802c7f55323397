// SPDX-License-Identifier: Apache-2.0
//
// Programs through the client: registration with its check, queries, and runs
// as Gemms are made. gRPC and the engine behind Run are client_test's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "qgemm/client.h"
#include "qgemm/program.h"
#include "tests/client/fake_service.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Long enough that a test fails by its own timeout, not by this.
constexpr absl::Duration kFar = absl::Minutes(5);

grpc::Status Unavailable() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
}

// down(silu(up(x))): x has width 8, `up` is [16, 8], `down` [8, 16].
Program TwoProducts() {
  ProgramBuilder builder(NumberType::kBFloat16);
  const RowsHandle x = builder.Input(8, {"x"});
  const RowsHandle up = builder.Gemm(x, "up");
  const RowsHandle act = builder.Act(up, Activation::kSilu);
  builder.Output(builder.Gemm(act, "down", {"down"}));
  return builder.Build();
}

// Two outputs, bf16 [m, 2] and int32 [m, 1].
v1::ProgramInfo InfoMessage() {
  v1::ProgramInfo info;
  info.set_id("program id");
  info.add_names("ffn");
  info.set_name_count(1);
  info.add_inputs()->set_name("x");
  info.mutable_inputs(0)->set_type(v1::NUMBER_TYPE_FP32);
  info.mutable_inputs(0)->set_width(3);
  info.add_outputs()->set_type(v1::NUMBER_TYPE_BF16);
  info.mutable_outputs(0)->set_width(2);
  info.add_outputs()->set_type(v1::NUMBER_TYPE_INT32);
  info.mutable_outputs(1)->set_width(1);
  info.set_input_row_bytes(12);
  info.set_output_row_bytes(8);
  info.set_ops(5);
  info.add_weights("weights id");
  info.set_resident_bytes(7);
  info.set_text("text");
  return info;
}

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() : bytes_(kM * kRowBytes) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<uint8_t>(i);
    }
    service_.set_weights({{"up", {16, 8}}, {"down", {8, 16}}});
    service_.set_program(InfoMessage());
    client_ = Connect({});
  }

  std::unique_ptr<Client> Connect(ClientOptions options) {
    options.connect_timeout = kFar;
    options.retry.initial_backoff = absl::Milliseconds(1);
    options.retry.max_backoff = absl::Milliseconds(4);
    auto client = Client::Connect(service_.address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // Two inputs of 2 and 6 bytes a row; the fake answers them.
  RunRequest Request() const {
    RunRequest request;
    request.program = "ffn";
    request.m = kM;
    const auto all = absl::MakeConstSpan(bytes_);
    request.inputs = {all.first(kM * 2), all.subspan(kM * 2)};
    return request;
  }

  std::string Answer() const {
    return std::string(bytes_.begin(), bytes_.end());
  }

  static constexpr int64_t kM = 3;
  static constexpr int64_t kRowBytes = 8;
  std::vector<uint8_t> bytes_;
  FakeService service_;
  std::unique_ptr<Client> client_;
};

TEST_F(ProgramsTest, RegistersAProgramAfterACheckAgainstItsWeights) {
  service_.set_deduplicates(true);
  RegisterOptions options;
  options.name = "ffn";
  options.if_match = "other id";
  const auto result = client_->RegisterProgram(TwoProducts(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->deduplicated);
  EXPECT_EQ(result->program.id, "program id");
  EXPECT_EQ(service_.calls(), 3);  // each weights once, and the load
  const v1::LoadProgramRequest sent = service_.load_program_request();
  EXPECT_EQ(sent.name(), "ffn");
  EXPECT_EQ(sent.if_match(), "other id");
  EXPECT_FALSE(sent.create_only());
  EXPECT_EQ(sent.program().ops_size(), 3);
  EXPECT_EQ(sent.program().inputs(0).name(), "x");
}

TEST_F(ProgramsTest, AProgramThatIsWrongAloneNeedsNoCall) {
  Program program = TwoProducts();
  program.inputs[0].width = 0;
  EXPECT_EQ(
      client_->RegisterProgram(program).status(),
      absl::InvalidArgumentError("input 0: width = 0: must be 1 to 1048576"));
  program.revision = 2;
  EXPECT_EQ(client_->RegisterProgram(program).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(ProgramsTest, AProgramThatDoesNotFitItsWeightsIsNotSent) {
  service_.set_weights({{"up", {16, 8}}, {"down", {8, 15}}});
  EXPECT_EQ(client_->RegisterProgram(TwoProducts()).status(),
            absl::InvalidArgumentError("op 2 (gemm down): value 2 has width "
                                       "16; weights down has k = 15"));
  service_.set_weights({{"up", {16, 8}}});
  EXPECT_EQ(
      client_->RegisterProgram(TwoProducts()).status(),
      absl::NotFoundError("op 2 (gemm down): weights down are not loaded"));
  EXPECT_EQ(service_.load_program_request().program().ops_size(), 0);
}

TEST_F(ProgramsTest, ModesAreLeftToTheServer) {
  Program program = TwoProducts();
  program.ops[0].mode = ComputeMode::kA8;
  program.ops[2].mode = ComputeMode::kA32;
  EXPECT_TRUE(client_->RegisterProgram(program).ok());
}

TEST_F(ProgramsTest, WithoutACheckTheProgramIsSentAsItIs) {
  Program program = TwoProducts();
  program.revision = 2;
  RegisterOptions options;
  options.check = false;
  options.create_only = true;
  ASSERT_TRUE(client_->RegisterProgram(program, options).ok());
  EXPECT_EQ(service_.calls(), 1);
  EXPECT_EQ(service_.load_program_request().program().revision(), 2u);
  EXPECT_TRUE(service_.load_program_request().create_only());
}

TEST_F(ProgramsTest, ATextIsSentAsItsMessage) {
  const ProgramText text = {
      "revision: 1 constants { name: 'c' type: NUMBER_TYPE_FP16 }",
      {{"c", {1, 2}}}};
  ASSERT_TRUE(client_->RegisterProgram(text).ok());
  EXPECT_EQ(service_.load_program_request().program().constants(0).values(),
            std::string("\x00\x3c\x00\x40", 4));
  EXPECT_EQ(client_->RegisterProgram(ProgramText{"ops", {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ProgramsTest, QueriesTranslateEveryField) {
  const auto program = client_->GetProgram("ffn");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->id, "program id");
  EXPECT_THAT(program->names, ElementsAre("ffn"));
  EXPECT_EQ(program->name_count, 1);
  ASSERT_EQ(program->inputs.size(), 1u);
  EXPECT_EQ(program->inputs[0].name, "x");
  EXPECT_EQ(program->inputs[0].type, NumberType::kFloat32);
  EXPECT_EQ(program->inputs[0].width, 3);
  ASSERT_EQ(program->outputs.size(), 2u);
  EXPECT_EQ(program->outputs[1].type, NumberType::kInt32);
  EXPECT_EQ(program->input_row_bytes, 12);
  EXPECT_EQ(program->output_row_bytes, 8);
  EXPECT_EQ(program->ops, 5);
  EXPECT_THAT(program->weights, ElementsAre("weights id"));
  EXPECT_EQ(program->resident_bytes, 7);
  EXPECT_EQ(program->text, "text");
}

TEST_F(ProgramsTest, ListWalksPagesAndUnloadSendsItsCondition) {
  const auto programs = client_->ListPrograms();
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_EQ(programs->size(), 2u);
  EXPECT_EQ((*programs)[0].id, "program id");
  EXPECT_EQ((*programs)[1].id, "second");
  const auto freed =
      client_->UnloadProgram("ffn", absl::InfiniteFuture(), "program id");
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_TRUE(*freed);
  EXPECT_EQ(service_.unload_program_request().program(), "ffn");
  EXPECT_EQ(service_.unload_program_request().if_match(), "program id");
}

TEST_F(ProgramsTest, RunSendsTheInputsOneBehindTheOther) {
  RunRequest request = Request();
  request.client_id = "frontend/7";
  request.priority = RequestPriority::kHigh;
  service_.set_run([](const v1::RunRequest&, v1::RunResponse* response) {
    response->set_outputs(std::string(kM * 5, 'c'));
    response->mutable_timings()->set_kernel_ns(1500);
    return grpc::Status::OK;
  });
  const auto result = client_->Run(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::RunRequest sent = service_.run_request();
  EXPECT_EQ(sent.program(), "ffn");
  EXPECT_EQ(sent.m(), static_cast<uint64_t>(kM));
  EXPECT_EQ(sent.client_id(), "frontend/7");
  EXPECT_EQ(sent.priority(), v1::PRIORITY_HIGH);
  EXPECT_EQ(sent.inputs(), Answer());
  EXPECT_EQ(result->outputs, std::string(kM * 5, 'c'));
  EXPECT_EQ(result->m, kM);
  EXPECT_EQ(result->row_bytes, 5);
  EXPECT_EQ(result->timings.kernel, absl::Nanoseconds(1500));
}

TEST_F(ProgramsTest, TimesOfOpsAreAskedForAndRead) {
  service_.set_run(
      [](const v1::RunRequest& request, v1::RunResponse* response) {
        response->set_outputs(request.inputs());
        if (request.time_ops()) {
          response->mutable_timings()->add_op_ns(700);
          response->mutable_timings()->add_op_ns(0);
        }
        return grpc::Status::OK;
      });
  RunRequest request = Request();
  EXPECT_THAT(client_->Run(request)->timings.ops, ElementsAre());
  request.time_ops = true;
  EXPECT_THAT(client_->Run(request)->timings.ops,
              ElementsAre(absl::Nanoseconds(700), absl::ZeroDuration()));
}

TEST_F(ProgramsTest, RunRefusesInputsThatFitNoRowsWithoutACall) {
  RunRequest request = Request();
  request.inputs.back().remove_suffix(1);
  EXPECT_EQ(client_->Run(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.inputs.clear();
  EXPECT_EQ(client_->Run(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request = Request();
  request.m = 0;
  EXPECT_EQ(client_->Run(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(ProgramsTest, RunBeyondTheMessageLimitNamesIt) {
  ClientOptions options;
  options.max_message_bytes = 1 << 16;
  const auto client = Connect(options);
  const std::vector<uint8_t> big(1 << 17);
  RunRequest request = Request();
  request.m = 1;
  request.inputs = {big};
  const absl::Status status = client->Run(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_message_bytes"));
}

TEST_F(ProgramsTest, RunRefusesAnAnswerThatHasNoWholeRows) {
  for (const size_t bytes : {size_t{0}, size_t{kM * 2 + 1}}) {
    service_.set_run([bytes](const v1::RunRequest&, v1::RunResponse* response) {
      response->set_outputs(std::string(bytes, 'c'));
      return grpc::Status::OK;
    });
    EXPECT_EQ(client_->Run(Request()).status().code(),
              absl::StatusCode::kInternal);
  }
}

TEST_F(ProgramsTest, OutputsGoIntoTheRequestsMemoryInOrder) {
  // Sizes that no slice of the answer has.
  std::vector<std::vector<uint8_t>> memory = {std::vector<uint8_t>(5),
                                              std::vector<uint8_t>(0),
                                              std::vector<uint8_t>(19)};
  RunRequest request = Request();
  for (auto& piece : memory) {
    request.outputs.push_back(absl::MakeSpan(piece));
  }
  const auto result = client_->Run(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outputs.empty());
  EXPECT_EQ(result->row_bytes, kRowBytes);
  std::vector<uint8_t> joined = memory[0];
  joined.insert(joined.end(), memory[2].begin(), memory[2].end());
  EXPECT_EQ(joined, bytes_);
}

TEST_F(ProgramsTest, MemoryOfAnotherSizeThanTheAnswerIsRefused) {
  std::vector<uint8_t> memory(bytes_.size() + 1, 7);
  RunRequest request = Request();
  request.outputs = {absl::MakeSpan(memory)};
  const absl::Status status = client_->Run(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("RunRequest::outputs"));
  EXPECT_EQ(memory, std::vector<uint8_t>(bytes_.size() + 1, 7));
}

TEST_F(ProgramsTest, RunIsRetriedAndItsBorrowedInputsReleasedOnce) {
  service_.FailNext(2, Unavailable());
  std::atomic<int> released{0};
  RunRequest request = Request();
  request.inputs_released = [&released] { ++released; };
  const auto result = client_->Run(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->attempts, 3);
  EXPECT_EQ(result->outputs, Answer());
  request.inputs_released = nullptr;
  client_.reset();
  while (released == 0) std::this_thread::yield();  // gRPC's own threads
  EXPECT_EQ(released, 1);
}

TEST_F(ProgramsTest, BorrowedInputsOfARefusedRequestAreReleased) {
  std::atomic<int> released{0};
  RunRequest request = Request();
  request.m = 0;
  request.inputs_released = [&released] { ++released; };
  EXPECT_FALSE(client_->Run(request).ok());
  EXPECT_EQ(released, 1);
  request.inputs.clear();
  EXPECT_FALSE(client_->Run(request).ok());
  EXPECT_EQ(released, 2);
}

TEST_F(ProgramsTest, InputsMayGoOnceTheCallHasStarted) {
  service_.CloseGate();
  auto input = std::make_unique<std::vector<uint8_t>>(bytes_);
  RunRequest request = Request();
  request.inputs = {*input};
  auto future = client_->RunFuture(request);
  std::fill(input->begin(), input->end(), 0xff);
  input.reset();
  service_.OpenGate();
  const auto result = future.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs, Answer());
}

TEST_F(ProgramsTest, DeadlineEndsARunThatIsNotAnswered) {
  service_.CloseGate();
  RunRequest request = Request();
  request.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_EQ(client_->Run(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ProgramsTest, AHandleCancelsItsRunAlone) {
  service_.CloseGate();
  std::promise<absl::Status> cancelled;
  const CallHandle handle =
      client_->RunAsync(Request(), [&](absl::StatusOr<RunResult> result) {
        cancelled.set_value(result.status());
      });
  auto other = client_->RunFuture(Request());
  service_.AwaitAtGate(2);
  handle.Cancel();
  EXPECT_EQ(cancelled.get_future().get(),
            absl::CancelledError("the caller cancelled the call"));
  service_.OpenGate();
  EXPECT_TRUE(other.get().ok());
}

TEST_F(ProgramsTest, BlockingRunInsideACallbackFailsAndReleasesItsInputs) {
  std::promise<absl::Status> status;
  std::atomic<int> released{0};
  client_->RunAsync(Request(), [&](absl::StatusOr<RunResult>) {
    RunRequest request = Request();
    request.inputs_released = [&released] { ++released; };
    status.set_value(client_->Run(request).status());
  });
  EXPECT_EQ(status.get_future().get().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace qgemm
