// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/server_metrics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/metrics/metrics_text.h"

namespace qgemm {
namespace {

using ::testing::Optional;

TEST(ServerMetricsTest, CountsRpcsByMethodAndCode) {
  ServerMetrics metrics;
  metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Seconds(1));
  metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Seconds(2));
  metrics.RpcEnded("Gemm", absl::StatusCode::kNotFound, absl::Seconds(4));
  metrics.RpcEnded("LoadWeights", absl::StatusCode::kOk, absl::Seconds(8));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_rpcs_total{code=\"OK\",method=\"Gemm\"}"),
      Optional(2.0));
  EXPECT_THAT(
      MetricValue(metrics,
                  "qgemm_rpcs_total{code=\"NOT_FOUND\",method=\"Gemm\"}"),
      Optional(1.0));
}

TEST(ServerMetricsTest, SumsRpcLatencyInSecondsByMethod) {
  ServerMetrics metrics;
  metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Milliseconds(250));
  metrics.RpcEnded("Gemm", absl::StatusCode::kNotFound,
                   absl::Milliseconds(500));
  metrics.RpcEnded("ListWeights", absl::StatusCode::kOk, absl::Seconds(9));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_rpc_latency_seconds_sum{method=\"Gemm\"}"),
      Optional(0.75));
}

TEST(ServerMetricsTest, CutsRpcLatencyAtTheDocumentedBounds) {
  ServerMetrics metrics;
  for (const int64_t us : {5, 10, 15, 100'000'000}) {
    metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Microseconds(us));
  }
  const std::string bucket = "qgemm_rpc_latency_seconds_bucket{method=\"Gemm\"";
  EXPECT_THAT(MetricValue(metrics, bucket + ",le=\"1e-05\"}"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics, bucket + ",le=\"2e-05\"}"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, bucket + ",le=\"41.94304\"}"),
              Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, bucket + ",le=\"+Inf\"}"), Optional(4.0));
}

TEST(ServerMetricsTest, ShowsQuantilesOfRpcLatencyByMethod) {
  ServerMetrics metrics;
  // 1 µs to 1500 µs once each, and one of another method.
  for (int64_t us = 1; us <= 1500; ++us) {
    metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Microseconds(us));
  }
  metrics.RpcEnded("ListWeights", absl::StatusCode::kOk, absl::Hours(1));
  const struct {
    const char* quantile;
    double seconds;
  } cases[] = {{"0.5", 750e-6}, {"0.99", 1485e-6}, {"0.999", 1499e-6}};
  for (const auto& [quantile, seconds] : cases) {
    const std::optional<double> shown = MetricValue(
        metrics, std::string("qgemm_rpc_latency_quantile_seconds{method="
                             "\"Gemm\",quantile=\"") +
                     quantile + "\"}");
    ASSERT_TRUE(shown.has_value()) << quantile;
    // The end of the bucket that holds the value: at most 1/1024 above it.
    EXPECT_GE(*shown, seconds * (1 - 1e-12)) << quantile;
    EXPECT_LE(*shown, seconds * (1 + 1.0 / 1024)) << quantile;
  }
}

TEST(ServerMetricsTest, CountsRowsOfAPowerOfTwoAtTheirBound) {
  ServerMetrics metrics;
  int64_t launches = 0;
  for (int64_t rows = 1; rows <= 8192; rows *= 2) {
    metrics.LaunchEnded({rows, 1, {}, {}});
    ++launches;
    EXPECT_THAT(MetricValue(metrics, "qgemm_launch_rows_bucket{le=\"" +
                                         std::to_string(rows) + "\"}"),
                Optional(static_cast<double>(launches)));
  }
}

TEST(ServerMetricsTest, ShowsTheLastQueueDepth) {
  ServerMetrics metrics;
  metrics.SetQueueDepth(7, 70, 4096);
  metrics.SetQueueDepth(3, 30, 1024);
  EXPECT_THAT(MetricValue(metrics, "qgemm_queue_requests"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_queue_rows"), Optional(30.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_queue_bytes"), Optional(1024.0));
}

TEST(ServerMetricsTest, ShowsTheLaunchesInFlight) {
  ServerMetrics metrics;
  metrics.SetLaunchesInFlight(2);
  EXPECT_THAT(MetricValue(metrics, "qgemm_launches_in_flight"), Optional(2.0));
}

TEST(ServerMetricsTest, EveryDropReasonStartsAtZero) {
  ServerMetrics metrics;
  for (const char* labels : {"reason=\"queue_full\",stage=\"admission\"",
                             "reason=\"quota\",stage=\"admission\"",
                             "reason=\"too_large\",stage=\"admission\"",
                             "reason=\"draining\",stage=\"admission\"",
                             "reason=\"draining\",stage=\"queue\"",
                             "reason=\"draining\",stage=\"chunks\"",
                             "reason=\"deadline\",stage=\"queue\"",
                             "reason=\"deadline\",stage=\"chunks\"",
                             "reason=\"cancelled\",stage=\"queue\"",
                             "reason=\"cancelled\",stage=\"chunks\""}) {
    EXPECT_THAT(
        MetricValue(metrics, std::string("qgemm_requests_dropped_total{") +
                                 labels + "}"),
        Optional(0.0))
        << labels;
  }
}

TEST(ServerMetricsTest, CountsDroppedRequestsByReasonAndStage) {
  ServerMetrics metrics;
  metrics.RequestDropped(DropReason::kDeadline, DropStage::kQueue);
  metrics.RequestDropped(DropReason::kDeadline, DropStage::kQueue);
  metrics.RequestDropped(DropReason::kDeadline, DropStage::kChunks);
  EXPECT_THAT(MetricValue(metrics,
                          "qgemm_requests_dropped_total{reason=\"deadline\","
                          "stage=\"queue\"}"),
              Optional(2.0));
}

TEST(ServerMetricsTest, CountsRequestsAndTheirRowsByHowTheyEnd) {
  ServerMetrics metrics;
  for (const int64_t rows : {1, 20, 300}) metrics.RequestAccepted(rows);
  metrics.RequestComputed(20, {});
  metrics.RequestFailed();
  EXPECT_THAT(MetricValue(metrics, "qgemm_requests_accepted_total"),
              Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_rows_accepted_total"),
              Optional(321.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_requests_computed_total"),
              Optional(1.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_rows_computed_total"),
              Optional(20.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_requests_failed_total"),
              Optional(1.0));
}

TEST(ServerMetricsTest, SumsStagesOfComputedRequestsInSeconds) {
  ServerMetrics metrics;
  metrics.RequestComputed(1,
                          {absl::Seconds(1), absl::Seconds(2), absl::Seconds(4),
                           absl::Seconds(8), absl::Seconds(16)});
  metrics.RequestComputed(1, {absl::Milliseconds(500), {}, {}, {}, {}});
  const struct {
    const char* stage;
    double seconds;
  } cases[] = {
      {"queue", 1.5}, {"h2d", 2}, {"kernel", 4}, {"d2h", 8}, {"total", 16}};
  for (const auto& [stage, seconds] : cases) {
    EXPECT_THAT(
        MetricValue(metrics,
                    std::string("qgemm_request_stage_seconds_sum{stage=\"") +
                        stage + "\"}"),
        Optional(seconds));
  }
}

TEST(ServerMetricsTest, CountsWastedRequestsByReason) {
  ServerMetrics metrics;
  metrics.RequestWasted(DropReason::kCancelled);
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_requests_wasted_total{reason=\"cancelled\"}"),
      Optional(1.0));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_requests_wasted_total{reason=\"deadline\"}"),
      Optional(0.0));
}

TEST(ServerMetricsTest, ShowsMemoryWhileThereIsSomebodyToAsk) {
  ServerMetrics metrics;
  EXPECT_EQ(MetricValue(metrics, "qgemm_staging_bytes"), std::nullopt);
  metrics.SampleMemory([] { return MemoryFigures{1000, 200, 30}; });
  EXPECT_THAT(MetricValue(metrics, "qgemm_resident_bytes"), Optional(1000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_staging_bytes"), Optional(200.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_staging_in_use_bytes"),
              Optional(30.0));
  metrics.SampleMemory(nullptr);
  EXPECT_EQ(MetricValue(metrics, "qgemm_staging_bytes"), std::nullopt);
}

TEST(ServerMetricsTest, ObservesLaunches) {
  ServerMetrics metrics;
  metrics.LaunchEnded(
      {16, 4, absl::Milliseconds(500), absl::Milliseconds(250)});
  metrics.LaunchEnded({2, 1, absl::Milliseconds(125), absl::Milliseconds(500)});
  EXPECT_THAT(MetricValue(metrics, "qgemm_launch_rows_sum"), Optional(18.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_launch_rows_count"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_launch_requests_sum"), Optional(5.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_launch_queue_seconds_sum"),
              Optional(0.625));
  EXPECT_THAT(MetricValue(metrics, "qgemm_launch_kernel_seconds_sum"),
              Optional(0.75));
}

TEST(ServerMetricsTest, CountsFailedLaunchesByCode) {
  ServerMetrics metrics;
  metrics.LaunchFailed(absl::StatusCode::kInternal);
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_launch_errors_total{code=\"INTERNAL\"}"),
      Optional(1.0));
}

TEST(ServerMetricsTest, ShowsWeightsAndTheirBudget) {
  ServerMetrics metrics;
  metrics.SetWeightsCount(3);
  metrics.SetWeightsBytes(3000);
  metrics.SetWeightsBudget(9000);
  metrics.AddUploadedBytes(1000);
  metrics.AddUploadedBytes(500);
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_count"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_bytes"), Optional(3000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_budget_bytes"),
              Optional(9000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_uploaded_bytes_total"),
              Optional(1500.0));
}

TEST(ServerMetricsTest, LosesNoCountUnderConcurrency) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 500;
  ServerMetrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < kCalls; ++i) {
        metrics.RpcEnded("Gemm", absl::StatusCode::kOk, absl::Seconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_rpcs_total{code=\"OK\",method=\"Gemm\"}"),
      Optional(double{kThreads * kCalls}));
}

}  // namespace
}  // namespace qgemm
