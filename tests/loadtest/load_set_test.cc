// SPDX-License-Identifier: Apache-2.0
//
// LoadSet: which messages there are, what they hold, and which are picked.

#include "loadtest/load_set.h"

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/workload/workload.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm::loadtest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<LoadedLayer> ThreeLayers() {
  return {{"up", "kbit4", 64, 128, 0},
          {"down", "kbit4", 128, 64, 0},
          {"out", "kbit4", 64, 32, 0}};
}

// Rows 1 or 4, three inputs, a fresh seed.
LoadtestOptions Options() {
  LoadtestOptions options;
  options.request.m = *ParseRowMix("1:1,4:1");
  options.request.inputs = 3;
  options.seed = std::random_device{}();
  return options;
}

// Two programs of a row of 96 inputs, and a head of 32.
LoadTargets ThreePrograms() {
  return {ThreeLayers(),
          {{"layer0", 96, 512}, {"layer1", 96, 512}, {"head", 32, 80}}};
}

std::unique_ptr<LoadSet> Make(const LoadtestOptions& options,
                              LoadTargets targets = {ThreeLayers(), {}}) {
  auto set = LoadSet::Make(options, std::move(targets));
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

template <typename Request = v1::GemmRequest>
Request RequestOf(const LoadSet& set, int message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(set.messages().message(message).Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  Request request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  return request;
}

std::string AsString(const std::vector<uint8_t>& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

TEST(LoadSetTest, MessagesAreWhatTheyAreDescribedAs) {
  LoadtestOptions options = Options();
  options.request.a_type = FloatType::kFloat32;
  options.request.c_type = FloatType::kBFloat16;
  options.request.mode = ComputeMode::kA32;
  const auto set = Make(options);
  for (int i = 0; i < set->messages().size(); ++i) {
    const RequestPick message = set->Describe(i);
    const LoadedLayer layer = ThreeLayers()[message.layer];
    const v1::GemmRequest request = RequestOf(*set, i);
    EXPECT_EQ(set->messages().method(i), "/qgemm.v1.Qgemm/Gemm");
    EXPECT_EQ(request.weights(), layer.name);
    EXPECT_EQ(request.m(), set->RowsOf(message));
    EXPECT_EQ(request.a_type(), v1::FLOAT_TYPE_FP32);
    EXPECT_EQ(request.c_type(), v1::FLOAT_TYPE_BF16);
    EXPECT_EQ(request.mode(), v1::COMPUTE_MODE_A32);
    EXPECT_EQ(request.a().size(), set->RowsOf(message) * layer.k * 4);
    EXPECT_EQ(request.a(), AsString(set->OperandOf(message)));
    EXPECT_EQ(set->AnswerBytes(message), set->RowsOf(message) * layer.n * 2);
  }
}

TEST(LoadSetTest, RequestsToProgramsHaveTheInputsOfAllRows) {
  LoadtestOptions options = Options();
  options.layers.program_walk = "a model";
  options.request.priority = RequestPriority::kHigh;
  const auto set = Make(options, ThreePrograms());
  ASSERT_EQ(set->size(), 3 * 2 * 3);  // programs, numbers of rows, inputs
  for (int i = 0; i < set->size(); ++i) {
    const RequestPick pick = set->Describe(i);
    const LoadedProgram program = ThreePrograms().programs[pick.layer];
    const auto request = RequestOf<v1::RunRequest>(*set, i);
    EXPECT_EQ(set->messages().method(i), "/qgemm.v1.Qgemm/Run");
    EXPECT_EQ(request.program(), program.name);
    EXPECT_EQ(request.m(), set->RowsOf(pick));
    EXPECT_EQ(request.priority(), v1::PRIORITY_HIGH);
    EXPECT_EQ(request.inputs().size(),
              set->RowsOf(pick) * program.input_row_elements * 2);
    EXPECT_EQ(request.inputs(), AsString(set->OperandOf(pick)));
    EXPECT_EQ(set->AnswerBytes(pick),
              set->RowsOf(pick) * program.output_row_bytes);
  }
}

TEST(LoadSetTest, AClientOfAWalkCallsTheProgramsInOrder) {
  LoadtestOptions options = Options();
  options.layers.program_walk = "a model";
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  const auto set = Make(options, ThreePrograms());
  for (int64_t client = 0; client < 5; ++client) {
    const int first = set->Describe(set->Pick(client, 0).message).layer;
    for (int64_t i = 0; i < 9; ++i) {
      const PickedRequest picked = set->Pick(client, i);
      const RequestPick pick = set->Describe(picked.message);
      EXPECT_EQ(pick.layer, (first + i) % 3);
      EXPECT_EQ(picked.bytes_sent, set->OperandOf(pick).size());
    }
  }
}

TEST(RowsOfPartTest, PartsFollowOneAnotherAndDifferByARowAtMost) {
  for (const int64_t m : {4, 7, 64, 65}) {
    for (const int parts : {1, 3, 4}) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const RowRange range = RowsOfPart(m, part, parts);
        EXPECT_EQ(range.first, next) << m << " rows, part " << part;
        EXPECT_GE(range.rows, m / parts);
        EXPECT_LE(range.rows, m / parts + 1);
        next += range.rows;
      }
      EXPECT_EQ(next, m);
    }
  }
}

TEST(LoadSetTest, PartsOfARequestHaveItsRowsBetweenThem) {
  LoadtestOptions options = Options();
  options.request.m = *ParseRowMix("7,16");
  options.request.parts = 3;
  const auto gemms = Make(options);
  const auto runs = Make(options, ThreePrograms());
  ASSERT_EQ(gemms->messages().size(), 3 * gemms->size());
  EXPECT_THAT(gemms->class_names(),
              ElementsAre("m=7 in 3 parts", "m=16 in 3 parts"));
  for (int i = 0; i < gemms->size(); ++i) {
    std::string a;
    std::string inputs;
    int64_t rows = 0;
    for (int part = 3 * i; part < 3 * i + 3; ++part) {
      const v1::GemmRequest gemm = RequestOf(*gemms, part);
      a += gemm.a();
      rows += gemm.m();
      const auto run = RequestOf<v1::RunRequest>(*runs, part);
      inputs += run.inputs();
      EXPECT_EQ(run.m(), gemm.m());
    }
    EXPECT_EQ(rows, gemms->RowsOf(gemms->Describe(i)));
    EXPECT_EQ(a, AsString(gemms->OperandOf(gemms->Describe(i))));
    EXPECT_EQ(inputs, AsString(runs->OperandOf(runs->Describe(i))));
  }
}

TEST(LoadSetTest, APickSaysWhatItsMessageIs) {
  LoadtestOptions options = Options();
  options.request.prefill_clients = 1;
  options.request.prefill_m = 16;
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  const auto set = Make(options);
  for (const int64_t client : {int64_t{-1}, int64_t{0}, int64_t{5},
                               kFirstPrefillClient, kFirstPrefillClient + 1}) {
    for (int64_t sequence = 0; sequence < 100; ++sequence) {
      const PickedRequest picked = set->Pick(client, sequence);
      ASSERT_GE(picked.message, 0);
      ASSERT_LT(picked.message, set->messages().size());
      const RequestPick message = set->Describe(picked.message);
      EXPECT_EQ(picked.row_class, message.row_class);
      EXPECT_EQ(picked.rows, set->RowsOf(message));
      EXPECT_EQ(picked.bytes_sent, set->OperandOf(message).size());
      EXPECT_EQ(client >= kFirstPrefillClient, picked.rows == 16);
    }
  }
}

TEST(LoadSetTest, ArrivalsOfAWalkGoThroughTheLayersTogether) {
  LoadtestOptions options = Options();
  options.layers.walk = "a model";
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  const auto set = Make(options);
  const int first = set->Describe(set->Pick(-1, 0).message).layer;
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(set->Describe(set->Pick(-1, i).message).layer, (first + i) % 3);
  }
}

TEST(LoadSetTest, AClientOfAWalkCallsTheLayersInOrder) {
  LoadtestOptions options = Options();
  options.layers.walk = "a model";
  SCOPED_TRACE(testing::Message() << "seed " << options.seed);
  const auto set = Make(options);
  for (int64_t client = 0; client < 5; ++client) {
    const int first = set->Describe(set->Pick(client, 0).message).layer;
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(set->Describe(set->Pick(client, i).message).layer,
                (first + i) % 3);
    }
  }
}

TEST(LoadSetTest, ClassesAreNamedByTheirRows) {
  LoadtestOptions options = Options();
  EXPECT_THAT(Make(options)->class_names(), ElementsAre("m=1", "m=4"));
  EXPECT_THAT(Make(options)->class_rows(), ElementsAre(1, 4));
  options.request.prefill_clients = 2;
  options.request.prefill_m = 4;  // as of a class before
  EXPECT_THAT(Make(options)->class_names(),
              ElementsAre("m=1", "m=4", "prefill m=4"));
  EXPECT_THAT(Make(options)->class_rows(), ElementsAre(1, 4, 4));
}

TEST(LoadSetTest, PrefillIsNotForOtherClients) {
  LoadtestOptions options = Options();
  options.request.prefill_clients = 2;
  const auto set = Make(options);
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_LT(set->Pick(i % 7, i).row_class, 2);
    EXPECT_LT(set->Pick(-1, i).row_class, 2);
  }
}

TEST(LoadSetTest, TakesFewerInputsThanAskedWhereTheyTakeTooMuchMemory) {
  LoadtestOptions options;
  options.request.inputs = 4096;
  options.request.m = *ParseRowMix("1024");
  // A of 1024 x 16384 fp16 is 32 MiB: eight in 256 MiB.
  const auto set = LoadSet::Make(
      options,
      {{{"wide", "kbit4", 16384, 8, 0}, {"same", "kbit4", 16384, 8, 0}}, {}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->messages().size(), 16);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_LT((*set)->Pick(0, i).message, 16);
  }
}

TEST(LoadSetTest, RefusesRequestsAboveTheLargestMessage) {
  LoadtestOptions options;
  options.request.m = *ParseRowMix("1,65536");
  const auto set = LoadSet::Make(options, {{{"small", "kbit4", 64, 64, 0},
                                            {"large", "kbit4", 4096, 14336, 0}},
                                           {}});
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("m = 65536"));
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("large"));
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("1073741824"));
}

}  // namespace
}  // namespace qgemm::loadtest
