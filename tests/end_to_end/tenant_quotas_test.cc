// SPDX-License-Identifier: Apache-2.0
//
// Quotas of the access table: a client that fills its own leaves another's
// alone, and is told which bound it met.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/tenants.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kN = 32;
constexpr int64_t kK = 64;
// The default of SchedulerOptions.
constexpr int kLaunches = 2;

std::vector<Tenant> Tenants(const std::string& quota) {
  return {{"small", {"small/"}, {"large/"}, {"compute", "load"}, quota},
          {"large", {"large/"}, {}}};
}

class TenantQuotasTest : public testing::Test {
 protected:
  // Serves with that quota of "small", in JSON.
  void Start(const std::string& quota) {
    table_ = std::make_unique<TenantTable>(Tenants(quota));
    ServerOptions options;
    options.metrics_listen = "127.0.0.1:0";
    server_ = std::make_unique<HeldServer>(table_->In(options));
  }

  Client As(const std::string& id) const {
    return ConnectAs(id, server_->test_server().address());
  }

  RandomUpload NewUpload() {
    WeightsSpec spec;
    spec.format = WireFormat::kQ4_0;
    spec.n = kN;
    spec.k = kK;
    return MakeRandomUpload(spec, &random_);
  }

  grpc::Status Load(const Client& client, const std::string& name) {
    return client.Load(ToMessages(NewUpload(), name)).status;
  }

  double Metric(const std::string& name) const {
    return ScrapeMetric(server_->test_server().server().metrics_port(), name);
  }

  // Returns once the metric has the value, which it will.
  void WaitFor(const std::string& metric, double value) const {
    while (Metric(metric) != value) std::this_thread::yield();
  }

  RandomGenerator random_{FreshSeed()};
  std::unique_ptr<TenantTable> table_;
  std::unique_ptr<HeldServer> server_;
};

void ExpectOverQuota(const grpc::Status& status, const std::string& quota,
                     int limit) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr(quota), HasSubstr(absl::StrCat(limit)),
                    HasSubstr("small")));
}

TEST_F(TenantQuotasTest, RowsThatWait) {
  Start(R"({"queued_rows": 3})");
  const Client large = As("large");
  const Client small = As("small");
  ASSERT_TRUE(Load(large, "large/x").ok());
  const v1::GemmRequest request = MakeGemm("large/x", 2, kK, &random_);
  const auto start = [&](const Client& client) {
    return std::async(std::launch::async,
                      [&client, request] { return client.Gemm(request); });
  };
  std::vector<std::future<Answer<v1::GemmResponse>>> accepted;
  server_->backend().Hold();
  for (int i = 1; i <= kLaunches; ++i) {
    accepted.push_back(start(small));
    server_->backend().WaitForHeld(i);
  }
  accepted.push_back(start(small));
  WaitFor("qgemm_queue_requests", 1);

  ExpectOverQuota(small.Gemm(request).status, "queued_rows", 3);
  // Over another connection, and under another's name, it is the same client.
  v1::GemmRequest disguised = request;
  disguised.set_client_id("large");
  ExpectOverQuota(As("small").Gemm(disguised).status, "queued_rows", 3);
  accepted.push_back(start(large));
  WaitFor("qgemm_queue_requests", 2);

  server_->backend().ReleaseAll();
  for (auto& future : accepted) EXPECT_TRUE(future.get().ok());
}

TEST_F(TenantQuotasTest, ARequestBeyondTheQuotaAloneIsNotToBeRetried) {
  Start(R"({"queued_bytes": 100})");
  const Client small = As("small");
  ASSERT_TRUE(Load(small, "small/x").ok());
  const grpc::Status refused =
      small.Gemm(MakeGemm("small/x", 2, kK, &random_)).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("quota queued_bytes is 100"));
}

TEST_F(TenantQuotasTest, BytesOfWeights) {
  Start(R"({"weights_bytes": 10000})");
  const Client small = As("small");
  int loaded = 0;
  grpc::Status status;
  while ((status = Load(small, absl::StrCat("small/", loaded))).ok()) {
    ASSERT_LT(++loaded, 10);
  }
  EXPECT_GT(loaded, 0);
  ExpectOverQuota(status, "weights_bytes", 10000);
  EXPECT_EQ(small.Info().weights_budget_bytes(), 10000u);
  EXPECT_LE(small.Info().weights_bytes(), 10000u);
  EXPECT_TRUE(Load(As("large"), "large/x").ok());
  // An unload gives back what an upload takes.
  EXPECT_TRUE(small.Unload("small/0").ok());
  EXPECT_TRUE(Load(small, "small/again").ok());
}

TEST_F(TenantQuotasTest, UploadsAtOneTime) {
  Start(R"({"uploads": 1})");
  const Client small = As("small");
  grpc::ClientContext context;
  v1::LoadWeightsResponse response;
  const auto writer = small.stub()->LoadWeights(&context, &response);
  ASSERT_TRUE(writer->Write(ToMessages(NewUpload(), "small/1")[0]));
  WaitFor("qgemm_uploads", 1);

  ExpectOverQuota(Load(small, "small/2"), "uploads", 1);
  EXPECT_TRUE(Load(As("large"), "large/x").ok());

  context.TryCancel();
  writer->Finish();
  WaitFor("qgemm_uploads", 0);
  EXPECT_TRUE(Load(small, "small/2").ok());
}

TEST_F(TenantQuotasTest, StreamsAtOneTime) {
  Start(R"({"streams": 1})");
  const Client small = As("small");
  StreamClient first(small);
  WaitFor("qgemm_streams", 1);
  StreamClient second(small);
  ExpectOverQuota(second.Finish(), "streams", 1);
  StreamClient other(As("large"));
  WaitFor("qgemm_streams", 2);
}

TEST_F(TenantQuotasTest, ConnectionsOfAllItsCalls) {
  Start(R"({"connections": 1})");
  const Client first = As("small");
  ASSERT_TRUE(Load(first, "small/x").ok());
  const Client second = As("small");
  ExpectOverQuota(Load(second, "small/y"), "connections", 1);
  EXPECT_TRUE(Load(As("large"), "large/x").ok());
  EXPECT_TRUE(Load(first, "small/y").ok());
}

}  // namespace
}  // namespace qgemm
