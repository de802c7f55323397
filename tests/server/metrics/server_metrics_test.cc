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
    metrics.LaunchEnded(rows, 1, absl::ZeroDuration(), absl::ZeroDuration());
    ++launches;
    EXPECT_THAT(MetricValue(metrics, "qgemm_launch_rows_bucket{le=\"" +
                                         std::to_string(rows) + "\"}"),
                Optional(static_cast<double>(launches)));
  }
}

TEST(ServerMetricsTest, ShowsTheLastQueueDepth) {
  ServerMetrics metrics;
  metrics.SetQueueDepth(7, 4096);
  metrics.SetQueueDepth(3, 1024);
  EXPECT_THAT(MetricValue(metrics, "qgemm_queue_requests"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_queue_bytes"), Optional(1024.0));
}

TEST(ServerMetricsTest, EveryDropReasonStartsAtZero) {
  ServerMetrics metrics;
  for (const char* reason :
       {"queue_full", "draining", "deadline", "cancelled"}) {
    EXPECT_THAT(
        MetricValue(metrics, std::string("qgemm_requests_dropped_total{reason="
                                         "\"") +
                                 reason + "\"}"),
        Optional(0.0));
  }
}

TEST(ServerMetricsTest, CountsDroppedRequestsByReason) {
  ServerMetrics metrics;
  metrics.RequestDropped("deadline");
  metrics.RequestDropped("deadline");
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_requests_dropped_total{reason=\"deadline\"}"),
      Optional(2.0));
}

TEST(ServerMetricsTest, ObservesLaunches) {
  ServerMetrics metrics;
  metrics.LaunchEnded(16, 4, absl::Milliseconds(500), absl::Milliseconds(250));
  metrics.LaunchEnded(2, 1, absl::Milliseconds(125), absl::Milliseconds(500));
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
  metrics.SetWeights(3, 3000);
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
