// SPDX-License-Identifier: Apache-2.0
//
// Programs and products of several clients at once, over unary calls, streams
// and lanes: every answer has the bits that it has on an idle server, and
// nothing of them is left there. A bounded number of rows on processors;
// QGEMM_SOAK_ROWS says another, QGEMM_SOAK_ON_GPU takes the GPU
// (docs/building.md).

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "client/program_wire.h"
#include "kernels/programs/checked_program.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/lane_fixture.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/random_matrix.h"
#include "tests/support/random_program.h"

namespace qgemm {
namespace {

constexpr int64_t kDefaultRows = 20000;
constexpr int kPrograms = 24;
constexpr int kProducts = 8;
constexpr int kUnaryClients = 3;
constexpr int kStreamClients = 3;
constexpr int kLaneClients = 3;
constexpr int64_t kBurst =
    12;  // requests on a stream, or lane, before it reads
// Each of a lane's slots has so many bytes of the operands.
constexpr int64_t kSlotBytes = int64_t{1} << 20;
constexpr int64_t kWidths[] = {256, 384, 256, 1, 7};
// Most share launches; the last two run in chunks, and alone.
constexpr int64_t kRows[] = {1, 1, 1, 1, 2, 2, 3, 3, 5, 16, 70, 150};

int64_t SoakRows() {
  const char* const rows = std::getenv("QGEMM_SOAK_ROWS");
  return rows == nullptr ? kDefaultRows : std::atoll(rows);
}

// A request and its answer; one of the two messages is set.
struct Case {
  int64_t m = 0;
  v1::GemmRequest gemm;
  v1::RunRequest run;
  std::string answer;

  bool is_run() const { return !run.program().empty(); }
  const std::string& operands() const {
    return is_run() ? run.inputs() : gemm.a();
  }
};

struct Outcome {
  grpc::Status status;
  std::string bytes;
  uint64_t launch_requests = 0;
};

Outcome Call(const Client& client, const Case& work) {
  grpc::ClientContext context;
  Outcome outcome;
  if (work.is_run()) {
    v1::RunResponse response;
    outcome.status = client.stub()->Run(&context, work.run, &response);
    outcome.bytes = std::move(*response.mutable_outputs());
    outcome.launch_requests = response.timings().launch_requests();
  } else {
    v1::GemmResponse response;
    outcome.status = client.stub()->Gemm(&context, work.gemm, &response);
    outcome.bytes = std::move(*response.mutable_c());
    outcome.launch_requests = response.timings().launch_requests();
  }
  return outcome;
}

v1::GemmStreamRequest OpenOf(uint64_t id, const Case& work) {
  if (!work.is_run()) return ToMessage(id, work.gemm);
  v1::GemmStreamRequest message;
  message.set_request_id(id);
  *message.mutable_open()->mutable_run() = work.run;
  message.mutable_open()->mutable_run()->clear_inputs();
  message.set_a(work.run.inputs());
  return message;
}

class ProgramSoakTest : public testing::Test {
 protected:
  ProgramSoakTest() {
    for (const auto& [n, k] : {std::pair(256, 256), {384, 256}, {256, 384}}) {
      AddLayer(n, k);
    }
    for (int loaded = 0; loaded < kPrograms && !HasFailure();) {
      if (AddProgram(std::to_string(loaded))) ++loaded;
    }
    for (int i = 0; i < kProducts; ++i) AddProduct();
    // The server is idle but for this.
    for (Case& work : cases_) {
      Outcome outcome = Call(client_, work);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      work.answer = std::move(outcome.bytes);
    }
  }

  static ServerOptions SoakServer(const TemporaryFolder& folder) {
    const char* const on_gpu = std::getenv("QGEMM_SOAK_ON_GPU");
    ServerOptions options = LaneServerOptions(
        folder, on_gpu == nullptr ? BackendKind::kCpu : BackendKind::kCuda);
    options.metrics_listen = "127.0.0.1:0";
    return options;
  }

  void AddLayer(int64_t n, int64_t k) {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = n;
    spec.k = k;
    const RandomUpload upload = MakeRandomUpload(spec, &random_);
    const std::string name = std::to_string(n) + "x" + std::to_string(k);
    const auto loaded = client_.Load(ToMessages(upload, name));
    ASSERT_TRUE(loaded.ok()) << loaded.status.error_message();
    weights_[name] = {loaded.response.weights().id(), ShapeOf(spec)};
  }

  // One program, and requests for it of as many rows as two draws say. False
  // if the draw has a mode that the backend does not have.
  bool AddProgram(const std::string& name) {
    std::string bytes(400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    FuzzInput input(reinterpret_cast<const uint8_t*>(bytes.data()),
                    bytes.size());
    const Program program = RandomProgram({kWidths, &weights_, 24}, &input);
    v1::LoadProgramRequest request;
    request.set_name(name);
    *request.mutable_program() = ToWire(program);
    grpc::ClientContext context;
    v1::LoadProgramResponse response;
    const grpc::Status status =
        client_.stub()->LoadProgram(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return false;
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (int i = 0; i < 2; ++i) {
      Case work;
      work.m = RandomElement(kRows, &random_);
      work.run.set_program(name);
      work.run.set_m(work.m);
      for (const ProgramInput& value : program.inputs) {
        const std::vector<uint8_t> rows = RandomMatrix(
            FloatTypeOf(value.type), work.m, value.width, &random_);
        work.run.mutable_inputs()->append(rows.begin(), rows.end());
      }
      cases_.push_back(std::move(work));
    }
    return true;
  }

  void AddProduct() {
    Case work;
    const int64_t layer =
        RandomInt(0, static_cast<int64_t>(weights_.size()) - 1, &random_);
    const auto& [name, weights] = *std::next(weights_.begin(), layer);
    work.m = RandomElement(kRows, &random_);
    work.gemm = MakeGemm(name, work.m, weights.shape.k, &random_);
    cases_.push_back(std::move(work));
  }

  void Judge(const Case& work, const Outcome& outcome) {
    if (outcome.launch_requests > 1) ++shared_;
    if (outcome.status.ok() && outcome.bytes == work.answer) return;
    const std::string what =
        work.is_run() ? "program " + work.run.program() : work.gemm.weights();
    ADD_FAILURE() << what << ", m = " << work.m << ", one of "
                  << outcome.launch_requests << " requests: "
                  << (outcome.status.ok() ? WhereOtherBitsAre(work, outcome)
                                          : outcome.status.error_message());
  }

  static std::string WhereOtherBitsAre(const Case& work,
                                       const Outcome& outcome) {
    const auto [expected, got] =
        std::mismatch(work.answer.begin(), work.answer.end(),
                      outcome.bytes.begin(), outcome.bytes.end());
    return absl::StrCat(outcome.bytes.size(), " bytes of ", work.answer.size(),
                        ", other bits from ", expected - work.answer.begin(),
                        " on");
  }

  // A connect that is on its way is sometimes taken by gRPC for one that failed
  // (it looks at errno late), and made again a second later.
  static void AwaitConnection(const Client& client) {
    EXPECT_TRUE(client.channel()->WaitForConnected(
        std::chrono::system_clock::now() + std::chrono::seconds(20)));
  }

  void CallInTurn(int64_t rows, uint64_t seed) {
    const Client client = server_.NewClient();
    AwaitConnection(client);
    RandomGenerator random(seed);
    while (rows > 0 && !HasFailure()) {
      const Case& work = cases_[random() % cases_.size()];
      Judge(work, Call(client, work));
      rows -= work.m;
    }
  }

  // Requests for the same work one behind the other, so that some find others
  // waiting that they can share a launch with.
  void Stream(int64_t rows, uint64_t seed) {
    const Client client = server_.NewClient();
    AwaitConnection(client);
    StreamClient stream(client);
    RandomGenerator random(seed);
    uint64_t id = 0;
    while (rows > 0 && !HasFailure()) {
      const Case& work = cases_[random() % cases_.size()];
      for (int64_t i = 0; i < kBurst; ++i) {
        if (stream.Write(OpenOf(++id, work))) continue;
        FAIL() << "the stream ended: " << stream.Finish().error_message();
      }
      for (int64_t i = 0; i < kBurst; ++i) {
        const StreamedAnswer answer = stream.ReadOne();
        Judge(work, {grpc::Status(answer.code(), answer.error.message()),
                     answer.c, answer.timings.launch_requests()});
      }
      rows -= kBurst * work.m;
    }
  }

  // The slot's request for the work, with A and C in that slot's bytes.
  static lane::RequestEntry EntryOf(const Case& work, uint32_t handle,
                                    uint32_t slot) {
    lane::RequestEntry entry;
    entry.handle = handle;
    entry.m = static_cast<uint32_t>(work.m);
    entry.slot = slot;
    entry.a_offset = slot * kSlotBytes;
    entry.a_bytes = work.operands().size();
    entry.c_offset = entry.a_offset + (entry.a_bytes + 63) / 64 * 64;
    entry.c_bytes = work.answer.size();
    if (work.is_run()) return entry;
    entry.a_type = static_cast<uint8_t>(work.gemm.a_type());
    entry.c_type = static_cast<uint8_t>(work.gemm.c_type());
    return entry;
  }

  // As Stream, over a lane, with each request in a slot of its own.
  void FillLane(int64_t rows, uint64_t seed) {
    RawLane lane(folder_.File("lane"));
    ASSERT_TRUE(lane.Hello(kBurst * kSlotBytes, kBurst).ok());
    RandomGenerator random(seed);
    uint32_t cookie = 0;
    while (rows > 0 && !HasFailure()) {
      const Case& work = cases_[random() % cases_.size()];
      const lane::RequestEntry first = EntryOf(work, 0, 0);
      if (first.c_offset + first.c_bytes > kSlotBytes) continue;
      const auto opened =
          work.is_run()
              ? lane.Open(lane::HandleKind::kProgram, work.run.program())
              : lane.Open(lane::HandleKind::kWeights, work.gemm.weights());
      ASSERT_TRUE(opened.ok());
      ++cookie;
      std::vector<lane::RequestEntry> entries;
      for (uint32_t slot = 0; slot < kBurst; ++slot) {
        lane::RequestEntry entry = EntryOf(work, opened.message.handle, slot);
        entry.cookie = cookie;
        absl::c_copy(work.operands(), lane.operands() + entry.a_offset);
        std::fill_n(lane.operands() + entry.c_offset, entry.c_bytes, 0xcd);
        lane.Publish(entry);
        entries.push_back(entry);
      }
      for (const lane::RequestEntry& entry : entries) {
        ASSERT_TRUE(lane.WaitForSlot(entry.slot, cookie));
        const lane::Completion& end = lane.completion(entry.slot);
        const auto code = static_cast<grpc::StatusCode>(end.code);
        Judge(work, {grpc::Status(code, lane.MessageOf(entry.slot)),
                     ResultOf(entry, lane), end.launch_requests});
      }
      lane.Close(opened.message.handle);
      rows -= kBurst * work.m;
    }
  }

  // Returns once nothing of the clients is left: it goes behind their answers.
  void AwaitNothingLeft() {
    for (const char* const metric :
         {"qgemm_lane_bytes", "qgemm_connections{transport=\"lane\"}",
          "qgemm_queue_requests", "qgemm_launches_in_flight"}) {
      while (ScrapeMetric(server_.server().metrics_port(), metric) > 0) {
      }
    }
  }

  RandomGenerator random_{FreshSeed()};
  const TemporaryFolder folder_;
  TestServer server_{SoakServer(folder_)};
  const Client client_ = server_.NewClient();
  ProgramWeightsMap weights_;
  std::vector<Case> cases_;
  std::atomic<int64_t> shared_{0};  // answers of launches with others
};

TEST_F(ProgramSoakTest, EveryAnswerHasTheBitsOfAnIdleServer) {
  const int64_t rows =
      SoakRows() / (kUnaryClients + kStreamClients + kLaneClients) + 1;
  std::vector<std::thread> clients;
  for (int i = 0; i < kUnaryClients; ++i) {
    clients.emplace_back([=, seed = random_()] { CallInTurn(rows, seed); });
  }
  for (int i = 0; i < kStreamClients; ++i) {
    clients.emplace_back([=, seed = random_()] { Stream(rows, seed); });
  }
  for (int i = 0; i < kLaneClients; ++i) {
    clients.emplace_back([=, seed = random_()] { FillLane(rows, seed); });
  }
  for (std::thread& client : clients) client.join();
  AwaitNothingLeft();
  // Else nothing was put to the test.
  EXPECT_GT(shared_, 0);
  RecordProperty("answers_of_shared_launches", std::to_string(shared_));
}

}  // namespace
}  // namespace qgemm
