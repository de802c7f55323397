// SPDX-License-Identifier: Apache-2.0
//
// Uploads that are right: deduplication before the first chunk, names that
// move whole, listings, and clients that vanish.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/weights/weight_store.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UploadsTest : public ::testing::Test {
 protected:
  UploadsTest() : random_(FreshSeed()), client_(server_.NewClient()) {}

  RandomUpload NewUpload(int64_t n = 64) {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = n;
    spec.k = 64;
    return MakeRandomUpload(spec, &random_);
  }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
};

TEST_F(UploadsTest, DescribesWhatItLoaded) {
  const RandomUpload upload = NewUpload();

  const auto answer = client_.Load(ToMessages(upload, "a.b/c-d_e"));

  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  const v1::WeightsInfo& info = answer.response.weights();
  EXPECT_FALSE(answer.response.deduplicated());
  EXPECT_THAT(info.names(), ElementsAre("a.b/c-d_e"));
  EXPECT_EQ(info.n(), 64);
  EXPECT_EQ(info.k(), 64);
  EXPECT_EQ(info.format(), "q4_0");
  EXPECT_EQ(info.uploaded_bytes(), TotalBytes(upload.spec));
  EXPECT_EQ(info.spec(), CanonicalText(upload.spec));
  const auto got = client_.Get(info.id());
  ASSERT_TRUE(got.ok()) << got.status.error_message();
  EXPECT_EQ(got.response.weights().SerializeAsString(),
            info.SerializeAsString());
}

TEST_F(UploadsTest, AnswersAtOnceForBytesThatItHolds) {
  const RandomUpload upload = NewUpload();
  ASSERT_TRUE(client_.Load(ToMessages(upload, "first")).ok());
  v1::LoadWeightsRequest header = ToMessages(upload, "second")[0];
  header.mutable_header()->set_sha256(IdOf(upload));

  // The stream stays open: the answer must not wait for its end.
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = client_.stub()->LoadWeights(&context, &response);
  writer->Write(header);
  const grpc::Status status = writer->Finish();

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.deduplicated());
  EXPECT_THAT(response.weights().names(), ElementsAre("first", "second"));
}

TEST_F(UploadsTest, FindsOutThatItHoldsTheBytes) {
  const RandomUpload upload = NewUpload();
  ASSERT_TRUE(client_.Load(ToMessages(upload, "first")).ok());
  const uint64_t held = client_.Info().weights_bytes();

  const auto again = client_.Load(ToMessages(upload, "first"));

  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_TRUE(again.response.deduplicated());
  EXPECT_EQ(client_.Info().weights_bytes(), held);
}

TEST_F(UploadsTest, GivesMemoryBackOnUnload) {
  const uint64_t before = client_.Info().weights_bytes();
  ASSERT_TRUE(client_.Load(ToMessages(NewUpload(), "layer")).ok());
  EXPECT_GT(client_.Info().weights_bytes(), before);
  const auto unloaded = client_.Unload("layer");
  ASSERT_TRUE(unloaded.ok()) << unloaded.status.error_message();
  EXPECT_TRUE(unloaded.response.freed());
  EXPECT_EQ(client_.Info().weights_bytes(), before);
  EXPECT_EQ(client_.Unload("layer").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

// Readers see the old layer or the new one, never neither: its n tells which.
TEST_F(UploadsTest, RebindsANameAtOneMoment) {
  const RandomUpload one = NewUpload(64);
  const RandomUpload other = NewUpload(32);
  ASSERT_TRUE(client_.Load(ToMessages(one, "layer")).ok());
  const v1::GemmRequest request = MakeGemm("layer", 1, 64, &random_);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    const Client own = server_.NewClient();
    do {
      const auto answer = own.Gemm(request);
      EXPECT_TRUE(answer.ok()) << answer.status.error_message();
      const size_t bytes = answer.response.c().size();
      EXPECT_TRUE(bytes == 2 * 64 || bytes == 2 * 32) << bytes;
    } while (!done);
  });
  for (int i = 0; i < 20; ++i) {
    const auto answer =
        client_.Load(ToMessages(i % 2 == 0 ? other : one, "layer"));
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
  }
  done = true;
  reader.join();
}

TEST_F(UploadsTest, LoadsTheSameBytesFromManyClientsOnce) {
  const std::vector<v1::LoadWeightsRequest> messages =
      ToMessages(NewUpload(), "layer");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {  // as many uploads as the default allows
    threads.emplace_back([&] {
      const auto answer = server_.NewClient().Load(messages);
      EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<v1::WeightsInfo> held = client_.List();
  ASSERT_EQ(held.size(), 1);
  EXPECT_EQ(client_.Info().weights_bytes(),
            held[0].resident_bytes() + kLayerRecordBytes + kNameRecordBytes);
}

TEST_F(UploadsTest, GivesMemoryBackWhenTheClientVanishes) {
  const uint64_t before = client_.Info().weights_bytes();
  const std::vector<v1::LoadWeightsRequest> messages =
      ToMessages(NewUpload(), "layer", 256);
  {
    grpc::ClientContext context;
    v1::LoadWeightsResponse response;
    const auto writer = client_.stub()->LoadWeights(&context, &response);
    for (size_t i = 0; i < messages.size() / 2; ++i) {
      ASSERT_TRUE(writer->Write(messages[i]));
    }
    while (client_.Info().weights_bytes() == before) std::this_thread::yield();
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  while (client_.Info().weights_bytes() != before) std::this_thread::yield();
  EXPECT_THAT(client_.List(), IsEmpty());
  EXPECT_TRUE(client_.Load(messages).ok());
}

}  // namespace
}  // namespace qgemm
