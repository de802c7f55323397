// SPDX-License-Identifier: Apache-2.0
//
// UnloadWeights with keep_on_disk, ListWeights by prefix, and requests that
// give up waiting for room, of a server with a state directory.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/server.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kK = 64;

class UnloadToDiskTest : public ::testing::Test {
 protected:
  static ServerOptions WithState(const TemporaryFolder& folder) {
    ServerOptions options;
    options.state_dir = folder.File("state");
    options.backend.kind = BackendKind::kCpu;
    options.weights_budget_bytes = 600 << 10;  // for one large layer being read
    return options;
  }

  std::vector<v1::LoadWeightsRequest> NewUpload(const std::string& name,
                                                int64_t n) {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = n;
    spec.k = kK;
    return ToMessages(MakeRandomUpload(spec, &random_), name);
  }
  void MustLoad(const std::string& name, int64_t n = 48) {
    const auto answer = client_.Load(NewUpload(name, n));
    ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  }
  void MustUnloadToDisk(const std::string& name) {
    grpc::ClientContext context;
    v1::UnloadWeightsRequest request;
    request.set_weights(name);
    request.set_keep_on_disk(true);
    v1::UnloadWeightsResponse response;
    const grpc::Status status =
        client_.stub()->UnloadWeights(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(response.freed());
    EXPECT_EQ(ResidentBytes(name), 0u);
  }
  std::string MustMultiply(const v1::GemmRequest& request) {
    const auto answer = client_.Gemm(request);
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    return answer.response.c();
  }
  uint64_t ResidentBytes(const std::string& name) {
    return client_.Get(name).response.weights().resident_bytes();
  }

  RandomGenerator random_{FreshSeed()};
  const TemporaryFolder folder_;
  TestServer server_{WithState(folder_)};
  const Client client_{server_.NewClient()};
};

TEST_F(UnloadToDiskTest, TheNextRequestBringsTheLayerBack) {
  MustLoad("layer");
  const v1::GemmRequest gemm = MakeGemm("layer", 3, kK, &random_);
  const std::string answer = MustMultiply(gemm);
  for (int round = 0; round < 3; ++round) {
    EXPECT_GT(ResidentBytes("layer"), 0u);
    MustUnloadToDisk("layer");
    EXPECT_EQ(MustMultiply(gemm), answer);
  }
}

// An upload in progress has the room that the large layer needs.
TEST_F(UnloadToDiskTest, ARequestThatGivesUpLeavesTheQueueForRoom) {
  constexpr int64_t kLarge = 2048;
  constexpr uint64_t kUpload = 300 << 10;  // takes more than that
  MustLoad("large", kLarge);
  MustLoad("small");
  const v1::GemmRequest large = MakeGemm("large", 1, kK, &random_);
  const v1::GemmRequest small = MakeGemm("small", 1, kK, &random_);
  const std::string answer = MustMultiply(large);
  MustUnloadToDisk("large");
  MustUnloadToDisk("small");
  grpc::ClientContext upload_context;
  v1::LoadWeightsResponse unused;
  const auto upload = client_.stub()->LoadWeights(&upload_context, &unused);
  ASSERT_TRUE(upload->Write(NewUpload("other", kLarge)[0]));
  const auto uploads = [&] { return client_.Info().weights_bytes() > kUpload; };
  while (!uploads()) std::this_thread::yield();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(200));
  v1::GemmResponse late;
  EXPECT_EQ(client_.stub()->Gemm(&context, large, &late).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  MustMultiply(small);
  EXPECT_TRUE(uploads());
  upload_context.TryCancel();
  upload->Finish();
  EXPECT_EQ(MustMultiply(large), answer);
}

TEST_F(UnloadToDiskTest, AListByPrefixComesInPages) {
  for (const char* const group : {"a/", "b/", "c/"}) {
    for (int i = 0; i < 5; ++i) MustLoad(absl::StrCat(group, i));
  }
  v1::ListWeightsRequest request;
  request.set_prefix("b/");
  request.set_page_size(3);
  std::vector<std::string> names;
  int pages = 0;
  do {
    grpc::ClientContext context;
    v1::ListWeightsResponse page;
    ASSERT_TRUE(client_.stub()->ListWeights(&context, request, &page).ok());
    for (const v1::WeightsInfo& info : page.weights()) {
      ASSERT_THAT(info.names(), SizeIs(1));
      names.push_back(info.names(0));
    }
    request.set_page_token(page.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 2);
  EXPECT_THAT(names, ElementsAre("b/0", "b/1", "b/2", "b/3", "b/4"));
}

}  // namespace
}  // namespace qgemm
