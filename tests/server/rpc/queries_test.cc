// SPDX-License-Identifier: Apache-2.0
//
// Lists of more layers, and of more names, than a message holds.

#include "server/rpc/queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/message_limits.h"
#include "server/weights/weight_store.h"
#include "tests/server/weights/counted_weights.h"
#include "tests/support/fake_async_backend.h"
#include "tests/support/fake_clock.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kPageBytes = size_t{1} << 20;

std::string LongName(int64_t number) {
  return absl::StrFormat("%0128d", number);
}

class QueriesTest : public testing::Test {
 protected:
  void AddLayer(int64_t number, const std::string& name) {
    Weights weights;
    weights.id = absl::StrFormat("%064x", number);
    weights.resident = std::make_shared<CountedWeights>(1, 0, &live_);
    auto reservation = store_.Reserve(kAnybody, 0);
    ASSERT_TRUE(reservation.ok());
    ASSERT_TRUE(store_
                    .Commit(kAnybody, std::move(weights),
                            *std::move(reservation), {name, false, ""})
                    .ok());
  }

  v1::ListWeightsResponse List(uint32_t page_size, const std::string& token) {
    v1::ListWeightsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1::ListWeightsResponse response;
    const absl::Status status = queries_.List(kAnybody, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }

  // The ids of all pages, each of which must be of at most `most_bytes`.
  std::vector<std::string> AllIds(uint32_t page_size, size_t most_bytes) {
    std::vector<std::string> ids;
    std::string token;
    do {
      const v1::ListWeightsResponse page = List(page_size, token);
      EXPECT_LE(page.ByteSizeLong(), most_bytes);
      for (const v1::WeightsInfo& info : page.weights()) {
        ids.push_back(info.id());
      }
      token = page.next_page_token();
    } while (!token.empty());
    return ids;
  }

  // In the order of names.
  static std::vector<std::string> IdsTo(int64_t layers) {
    std::vector<std::string> ids;
    for (int64_t i = 0; i < layers; ++i) {
      ids.push_back(absl::StrFormat("%064x", i));
    }
    return ids;
  }

  std::atomic<int64_t> live_{0};
  FakeAsyncBackend backend_;
  FakeClock clock_;
  WeightStore store_{StoreLimits{}};
  Queries queries_{&backend_, &store_, &clock_, RpcOptions()};
};

TEST_F(QueriesTest, AClientWithoutPagesGetsAllThatFitOneMessage) {
  for (int64_t i = 0; i < 2000; ++i) AddLayer(i, LongName(i));
  const v1::ListWeightsResponse all = List(0, "");
  EXPECT_EQ(all.weights_size(), 2000);
  EXPECT_EQ(all.next_page_token(), "");
}

TEST_F(QueriesTest, AClientWithoutPagesGetsAFirstPageOfALongerList) {
  constexpr int64_t kLayers = 20000;
  for (int64_t i = 0; i < kLayers; ++i) AddLayer(i, LongName(i));
  const v1::ListWeightsResponse first = List(0, "");
  EXPECT_LE(first.ByteSizeLong(), static_cast<size_t>(kDefaultFragmentBytes));
  EXPECT_GT(first.ByteSizeLong(), 3 * kPageBytes);
  EXPECT_NE(first.next_page_token(), "");
  EXPECT_EQ(AllIds(0, kDefaultFragmentBytes), IdsTo(kLayers));
}

TEST_F(QueriesTest, PagesHaveEachLayerOnceAndAtMostAMebibyte) {
  constexpr int64_t kLayers = 9000;
  for (int64_t i = 0; i < kLayers; ++i) AddLayer(i, LongName(i));
  EXPECT_EQ(AllIds(10000, kPageBytes), IdsTo(kLayers));
  EXPECT_EQ(AllIds(1000, kPageBytes), IdsTo(kLayers));
  EXPECT_EQ(List(7, "").weights_size(), 7);
}

TEST_F(QueriesTest, APageThatEndsWithTheListHasNoToken) {
  for (int64_t i = 0; i < 4; ++i) AddLayer(i, LongName(i));
  EXPECT_EQ(List(4, "").next_page_token(), "");
  EXPECT_NE(List(3, "").next_page_token(), "");
}

TEST_F(QueriesTest, ManyNamesOfALayerDoNotMakeItsAnswersLong) {
  AddLayer(0, "");
  const std::string id = absl::StrFormat("%064x", 0);
  for (int64_t i = 0; i < 40000; ++i) {
    ASSERT_TRUE(store_.BindIfHeld(kAnybody, id, {LongName(i), false, ""}).ok());
  }
  EXPECT_LT(List(0, "").ByteSizeLong(), 20000u);
  v1::GetWeightsRequest request;
  request.set_weights(id);
  request.set_names_after(LongName(122));
  v1::GetWeightsResponse response;
  ASSERT_TRUE(queries_.Get(kAnybody, request, &response).ok());
  EXPECT_EQ(response.weights().names_size(), 100);
  EXPECT_EQ(response.weights().names(0), LongName(123));
  EXPECT_EQ(response.weights().name_count(), 40000u);
}

TEST_F(QueriesTest, PagesOfAPrefixHaveItsLayersAlone) {
  for (int64_t i = 0; i < 40; ++i) {
    AddLayer(i, absl::StrCat(i % 2 == 0 ? "even/" : "odd/", LongName(i)));
  }
  v1::ListWeightsRequest request;
  request.set_prefix("odd/");
  request.set_page_size(7);
  std::vector<int64_t> sizes;
  std::set<std::string> ids;
  do {
    v1::ListWeightsResponse page;
    ASSERT_TRUE(queries_.List(kAnybody, request, &page).ok());
    sizes.push_back(page.weights_size());
    for (const v1::WeightsInfo& info : page.weights()) {
      EXPECT_THAT(info.names(0), HasSubstr("odd/"));
      ids.insert(info.id());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(sizes, ElementsAre(7, 7, 6));
  EXPECT_EQ(ids.size(), 20u);
}

TEST_F(QueriesTest, KeepOnDiskIsForOneLayerOfAServerWithADisk) {
  AddLayer(1, "layer");
  v1::UnloadWeightsRequest request;
  request.set_weights("layer");
  request.set_keep_on_disk(true);
  v1::UnloadWeightsResponse response;
  const absl::Status status = queries_.Unload(kAnybody, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("--state_dir"));
  EXPECT_TRUE(store_.Find(kAnybody, "layer").ok());
  request.clear_weights();
  request.set_prefix("lay");
  EXPECT_EQ(queries_.Unload(kAnybody, request, &response).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(QueriesTest, RefusesATokenThatIsNone) {
  v1::ListWeightsRequest request;
  request.set_page_token("x");
  v1::ListWeightsResponse response;
  const absl::Status status = queries_.List(kAnybody, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("page_token"));
}

TEST_F(QueriesTest, RefusesAPageBeyondTheLimit) {
  v1::ListWeightsRequest request;
  request.set_page_size(10001);
  v1::ListWeightsResponse response;
  const absl::Status status = queries_.List(kAnybody, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("page_size = 10001"));
}

TEST_F(QueriesTest, UnloadsOnlyTheWeightsOfIfMatch) {
  AddLayer(1, "layer");
  v1::UnloadWeightsRequest request;
  request.set_weights("layer");
  request.set_if_match(absl::StrFormat("%064x", 2));
  v1::UnloadWeightsResponse response;
  EXPECT_EQ(queries_.Unload(kAnybody, request, &response).code(),
            absl::StatusCode::kFailedPrecondition);
  request.set_if_match(absl::StrFormat("%064x", 1));
  EXPECT_TRUE(queries_.Unload(kAnybody, request, &response).ok());
}

}  // namespace
}  // namespace qgemm
