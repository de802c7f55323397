// SPDX-License-Identifier: Apache-2.0
//
// Counters and gauges live in a registry; histograms are cut at each scrape.

#include "server/metrics/server_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/request_families.h"

namespace qgemm {
namespace {

// Latencies of RPCs by method, and their count by method and code.
class RpcFamilies {
 public:
  explicit RpcFamilies(prometheus::Registry& registry)
      : ended_(prometheus::BuildCounter()
                   .Name("qgemm_rpcs_total")
                   .Help("RPCs that ended.")
                   .Register(registry)) {}

  void Ended(absl::string_view method, absl::StatusCode code,
             absl::Duration latency) {
    const auto [counter, values] = Find(method, code);
    counter->Increment();
    values->Record(absl::ToInt64Nanoseconds(latency));
  }

  // Appends latencies by method, cut at bounds and as quantiles; nothing before
  // the first RPC.
  void Collect(MetricFamilies* families) const {
    prometheus::MetricFamily latency = {
        "qgemm_rpc_latency_seconds",
        "Time from a received RPC to its answer.",
        prometheus::MetricType::Histogram,
        {}};
    prometheus::MetricFamily quantiles = {
        "qgemm_rpc_latency_quantile_seconds",
        "The same, as quantiles since the server's start.",
        prometheus::MetricType::Gauge,
        {}};
    const auto latencies = Latencies();
    if (latencies.empty()) return;
    for (const auto& [method, values] : latencies) {
      const Histogram snapshot = values->Snapshot();
      latency.metric.push_back(ToHistogram(method, snapshot));
      for (const char* const quantile : {"0.5", "0.99", "0.999"}) {
        quantiles.metric.push_back(ToQuantile(method, snapshot, quantile));
      }
    }
    families->push_back(std::move(latency));
    families->push_back(std::move(quantiles));
  }

 private:
  struct Method {
    LockedHistogram latency_ns{LargestBound(LatencyScale())};
    std::map<absl::StatusCode, prometheus::Counter*> by_code;
  };

  prometheus::ClientMetric ToHistogram(const std::string& method,
                                       const Histogram& latency_ns) const {
    prometheus::ClientMetric metric;
    metric.label = {{"method", method}};
    metric.histogram = CutAtBounds(latency_ns, scale_);
    return metric;
  }

  static prometheus::ClientMetric ToQuantile(const std::string& method,
                                             const Histogram& latency_ns,
                                             const char* quantile) {
    prometheus::ClientMetric metric;
    metric.label = {{"method", method}, {"quantile", quantile}};
    metric.gauge.value = static_cast<double>(latency_ns.Percentile(
                             100 * std::strtod(quantile, nullptr))) /
                         kNanosecondsPerSecond;
    return metric;
  }

  std::vector<std::pair<std::string, const LockedHistogram*>> Latencies()
      const {
    MutexLock lock(&mutex_);
    std::vector<std::pair<std::string, const LockedHistogram*>> latencies;
    for (const auto& [name, method] : methods_) {
      latencies.emplace_back(name, &method.latency_ns);
    }
    return latencies;
  }

  std::pair<prometheus::Counter*, LockedHistogram*> Find(
      absl::string_view name, absl::StatusCode code) {
    MutexLock lock(&mutex_);
    auto found = methods_.find(name);
    if (found == methods_.end()) {
      found = methods_.try_emplace(std::string(name)).first;
    }
    prometheus::Counter*& counter = found->second.by_code[code];
    if (counter == nullptr) {
      counter = &ended_.Add(
          {{"method", found->first}, {"code", absl::StatusCodeToString(code)}});
    }
    return {counter, &found->second.latency_ns};
  }

  const ExportedScale scale_ = LatencyScale();
  prometheus::Family<prometheus::Counter>& ended_;
  mutable Mutex mutex_;
  std::map<std::string, Method, std::less<>> methods_ ABSL_GUARDED_BY(mutex_);
};

// Gauges sampled at each scrape.
class MemoryFamilies {
 public:
  void Sample(absl::AnyInvocable<MemoryFigures()> sample) {
    MutexLock lock(&mutex_);
    sample_ = std::move(sample);
  }

  // Appends nothing while no sample function is registered.
  void Collect(MetricFamilies* families) const {
    MutexLock lock(&mutex_);
    if (sample_ == nullptr) return;
    const MemoryFigures figures = sample_();
    families->push_back(Gauge("qgemm_resident_bytes",
                              "Memory of the backend that holds layers.",
                              figures.weights_bytes));
    families->push_back(Gauge("qgemm_staging_bytes",
                              "Host memory for operands, in use and kept.",
                              figures.staging_bytes));
    families->push_back(Gauge("qgemm_staging_in_use_bytes",
                              "Host memory that holds operands of requests.",
                              figures.staging_in_use_bytes));
  }

 private:
  static prometheus::MetricFamily Gauge(const char* name, const char* help,
                                        int64_t value) {
    prometheus::ClientMetric metric;
    metric.gauge.value = static_cast<double>(value);
    return {name, help, prometheus::MetricType::Gauge, {metric}};
  }

  mutable Mutex mutex_;
  mutable absl::AnyInvocable<MemoryFigures()> sample_ ABSL_GUARDED_BY(mutex_);
};

struct LaunchFamilies {
  explicit LaunchFamilies(prometheus::Registry& r)
      : errors(r, "qgemm_launch_errors_total",
               "Launches that the backend refused or failed.", "code") {}

  void Collect(MetricFamilies* families) const {
    for (const ExportedHistogram* const histogram :
         {&rows, &requests, &queue, &kernel}) {
      families->push_back(histogram->Collect());
    }
  }

  ExportedHistogram rows{"qgemm_launch_rows", "Activation rows of a launch.",
                         RowScale()};
  ExportedHistogram requests{"qgemm_launch_requests", "Requests of a launch.",
                             RequestScale()};
  ExportedHistogram queue{
      "qgemm_launch_queue_seconds",
      "Wait of a launch's oldest request until its work started.",
      DeviceScale()};
  ExportedHistogram kernel{"qgemm_launch_kernel_seconds",
                           "Compute time of a launch.", DeviceScale()};
  LabelledCounter errors;
};

struct WeightsFamilies {
  explicit WeightsFamilies(prometheus::Registry& r)
      : count(AddGauge(r, "qgemm_weights_count", "Layers that are held.")),
        bytes(AddGauge(r, "qgemm_weights_bytes",
                       "Bytes of the weights budget that are held.")),
        budget(AddGauge(r, "qgemm_weights_budget_bytes",
                        "The weights budget; 0 is no limit.")),
        uploaded(AddCounter(r, "qgemm_uploaded_bytes_total",
                            "Section bytes received by LoadWeights.")) {}

  prometheus::Gauge* count;
  prometheus::Gauge* bytes;
  prometheus::Gauge* budget;
  prometheus::Counter* uploaded;
};

}  // namespace

struct ServerMetrics::Families final : public prometheus::Collectable {
  MetricFamilies Collect() const override {
    MetricFamilies families = counters_and_gauges.Collect();
    rpcs.Collect(&families);
    launch.Collect(&families);
    families.push_back(requests.stages.Collect());
    memory.Collect(&families);
    return families;
  }

  prometheus::Registry counters_and_gauges;
  RpcFamilies rpcs{counters_and_gauges};
  QueueFamilies queue{counters_and_gauges};
  RequestFamilies requests{counters_and_gauges};
  LaunchFamilies launch{counters_and_gauges};
  MemoryFamilies memory;
  WeightsFamilies weights{counters_and_gauges};
};

ServerMetrics::ServerMetrics() : families_(std::make_shared<Families>()) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::RpcEnded(absl::string_view method, absl::StatusCode code,
                             absl::Duration latency) {
  families_->rpcs.Ended(method, code, latency);
}

void ServerMetrics::SetQueueDepth(int64_t requests, int64_t rows,
                                  int64_t bytes) {
  families_->queue.requests->Set(static_cast<double>(requests));
  families_->queue.rows->Set(static_cast<double>(rows));
  families_->queue.bytes->Set(static_cast<double>(bytes));
}

void ServerMetrics::SetLaunchesInFlight(int64_t launches) {
  families_->queue.launches->Set(static_cast<double>(launches));
}

void ServerMetrics::RequestAccepted(int64_t rows) {
  families_->requests.accepted->Increment();
  families_->requests.accepted_rows->Increment(static_cast<double>(rows));
}

void ServerMetrics::RequestDropped(DropReason reason, DropStage stage) {
  families_->queue.dropped.Increment(reason, stage);
}

void ServerMetrics::RequestComputed(int64_t rows, const GemmTimings& timings) {
  families_->requests.computed->Increment();
  families_->requests.computed_rows->Increment(static_cast<double>(rows));
  families_->requests.stages.Record(timings);
}

void ServerMetrics::RequestFailed() { families_->requests.failed->Increment(); }

void ServerMetrics::RequestWasted(DropReason reason) {
  families_->requests.wasted.Increment(NameOf(reason));
}

void ServerMetrics::LaunchEnded(const LaunchFigures& launch) {
  families_->launch.rows.Record(launch.rows);
  families_->launch.requests.Record(launch.requests);
  families_->launch.queue.Record(launch.queue);
  families_->launch.kernel.Record(launch.kernel);
}

void ServerMetrics::LaunchFailed(absl::StatusCode code) {
  families_->launch.errors.Increment(absl::StatusCodeToString(code));
}

void ServerMetrics::SetWeightsCount(int64_t count) {
  families_->weights.count->Set(static_cast<double>(count));
}

void ServerMetrics::SetWeightsBytes(int64_t bytes) {
  families_->weights.bytes->Set(static_cast<double>(bytes));
}

void ServerMetrics::SetWeightsBudget(int64_t bytes) {
  families_->weights.budget->Set(static_cast<double>(bytes));
}

void ServerMetrics::AddUploadedBytes(int64_t bytes) {
  families_->weights.uploaded->Increment(static_cast<double>(bytes));
}

void ServerMetrics::SampleMemory(absl::AnyInvocable<MemoryFigures()> sample) {
  families_->memory.Sample(std::move(sample));
}

std::shared_ptr<prometheus::Collectable> ServerMetrics::registry() const {
  return families_;
}

}  // namespace qgemm
