// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/server_metrics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/traffic.h"
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
  metrics.RequestsAccepted(2, 21);
  metrics.RequestsAccepted(1, 300);
  const GemmTimings timings = {};
  metrics.RequestsComputed(20, {&timings});
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
  const GemmTimings long_one = {absl::Seconds(1), absl::Seconds(2),
                                absl::Seconds(4), absl::Seconds(8),
                                absl::Seconds(16)};
  const GemmTimings short_one = {absl::Milliseconds(500), {}, {}, {}, {}};
  metrics.RequestsComputed(2, {&long_one, &short_one});
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
  metrics.SetLayerCounts(3, 5);
  metrics.SetWeightsBytes(3000);
  metrics.SetWeightsBudget(9000);
  metrics.AddUploadedBytes(1000);
  metrics.AddUploadedBytes(500);
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_layers"), Optional(3.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_names"), Optional(5.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_bytes"), Optional(3000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_weights_budget_bytes"),
              Optional(9000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_uploaded_bytes_total"),
              Optional(1500.0));
}

TEST(ServerMetricsTest, ShowsOneHealthStateAndKeepsItsReason) {
  ServerMetrics metrics;
  EXPECT_EQ(metrics.health().state, HealthState::kStarting);
  metrics.SetHealth(HealthState::kServing);
  metrics.SetHealth(HealthState::kFailed, "the device fell off the bus");
  EXPECT_EQ(metrics.health().state, HealthState::kFailed);
  EXPECT_EQ(metrics.health().reason, "the device fell off the bus");
  EXPECT_THAT(MetricValue(metrics, "qgemm_health{state=\"failed\"}"),
              Optional(1.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_health{state=\"serving\"}"),
              Optional(0.0));
}

TEST(ServerMetricsTest, CountsConnectionsAndBytesByTransport) {
  ServerMetrics metrics;
  metrics.ConnectionsChanged("tcp", 1);
  metrics.ConnectionsChanged("tcp", 1);
  metrics.ConnectionsChanged("tcp", -1);
  metrics.ConnectionRefused("peer");
  metrics.AddTransportBytes("unix", Direction::kReceived, 100);
  metrics.AddTransportBytes("unix", Direction::kSent, 30);
  const struct {
    const char* series;
    double value;
  } cases[] = {
      {"qgemm_connections{transport=\"tcp\"}", 1},
      {"qgemm_connections_accepted_total{transport=\"tcp\"}", 2},
      {"qgemm_connections_accepted_total{transport=\"unix\"}", 0},
      {"qgemm_connections_refused_total{reason=\"peer\"}", 1},
      {"qgemm_connections_refused_total{reason=\"fd\"}", 0},
      {"qgemm_transport_bytes_total{direction=\"received\",transport=\"unix\"}",
       100},
      {"qgemm_transport_bytes_total{direction=\"sent\",transport=\"unix\"}",
       30},
  };
  for (const auto& [series, value] : cases) {
    EXPECT_THAT(MetricValue(metrics, series), Optional(value)) << series;
  }
}

TEST(ServerMetricsTest, CountsCallsInProgressAndThoseThatTimedOut) {
  ServerMetrics metrics;
  metrics.CallTimedOut("upload_idle");
  metrics.StreamsChanged(2);
  metrics.UploadsChanged(1);
  metrics.AnswersWaitingChanged(3, 300);
  metrics.AnswersWaitingChanged(-1, -100);
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_calls_timed_out_total{kind=\"upload_idle\"}"),
      Optional(1.0));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_calls_timed_out_total{kind=\"answer_idle\"}"),
      Optional(0.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_streams"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_uploads"), Optional(1.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_answers_waiting"), Optional(2.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_answers_waiting_bytes"),
              Optional(200.0));
}

TEST(ServerMetricsTest, SaysWhatRuns) {
  ServerMetrics metrics;
  metrics.SetBuildInfo({"1.2.3", "cpu", "a processor", "avx2"});
  metrics.SetMemoryLimits(1000, 2000);
  EXPECT_THAT(MetricValue(metrics,
                          "qgemm_build_info{backend=\"cpu\",detail=\"avx2\","
                          "device=\"a processor\",version=\"1.2.3\"}"),
              Optional(1.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_staging_limit_bytes"),
              Optional(1000.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_memory_limit_bytes"),
              Optional(2000.0));
}

TEST(ServerMetricsTest, CountsTrafficByLayerAndClient) {
  ServerMetrics metrics;
  const auto layer = metrics.LayerTraffic("mlp.up");
  layer->AddBytes(4096);
  layer->RequestComputed(3);
  metrics.LayerTraffic("mlp.up")->RequestComputed(4);
  metrics.ClientTraffic("uid 1000")->RequestDropped();
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_layer_requests_total{layer=\"mlp.up\"}"),
      Optional(2.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_layer_rows_total{layer=\"mlp.up\"}"),
              Optional(7.0));
  EXPECT_THAT(MetricValue(metrics, "qgemm_layer_bytes{layer=\"mlp.up\"}"),
              Optional(4096.0));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_client_dropped_total{client=\"uid 1000\"}"),
      Optional(1.0));
  EXPECT_THAT(
      MetricValue(metrics, "qgemm_client_dropped_total{client=\"other\"}"),
      Optional(0.0));
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
