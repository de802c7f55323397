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

std::unique_ptr<LoadSet> Make(const LoadtestOptions& options) {
  auto set = LoadSet::Make(options, ThreeLayers());
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

v1::GemmRequest RequestOf(const LoadSet& set, int message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(set.messages().message(message).Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::GemmRequest request;
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
  const auto set = LoadSet::Make(options, {{"wide", "kbit4", 16384, 8, 0},
                                           {"same", "kbit4", 16384, 8, 0}});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->messages().size(), 16);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_LT((*set)->Pick(0, i).message, 16);
  }
}

TEST(LoadSetTest, RefusesRequestsAboveTheLargestMessage) {
  LoadtestOptions options;
  options.request.m = *ParseRowMix("1,65536");
  const auto set = LoadSet::Make(options, {{"small", "kbit4", 64, 64, 0},
                                           {"large", "kbit4", 4096, 14336, 0}});
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("m = 65536"));
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("large"));
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("1073741824"));
}

}  // namespace
}  // namespace qgemm::loadtest
