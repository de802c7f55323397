// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/server_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "server/metrics/locked_histogram.h"

namespace qgemm {
namespace {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

constexpr double kNanosecondsPerSecond = 1e9;

// `count` bounds, each twice the one before.
std::vector<double> Doubling(double first, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= 2) {
    bounds.push_back(bound);
  }
  return bounds;
}

// Durations in nanoseconds. 10 µs, a wake-up, to 42 s, a large upload.
ExportedScale LatencyScale() {
  return {Doubling(10e-6, 23), kNanosecondsPerSecond};
}
// 1 µs, an idle queue or a small kernel, to 8.4 s.
ExportedScale DeviceScale() {
  return {Doubling(1e-6, 24), kNanosecondsPerSecond};
}
// 1 to 8192 rows.
ExportedScale RowScale() { return {Doubling(1, 14), 1}; }
// 1 to 256 requests.
ExportedScale RequestScale() { return {Doubling(1, 9), 1}; }

int64_t LargestBound(const ExportedScale& scale) {
  return static_cast<int64_t>(scale.bounds.back() * scale.values_per_unit);
}

prometheus::Counter* AddCounter(prometheus::Registry& registry,
                                const char* name, const char* help) {
  return &prometheus::BuildCounter()
              .Name(name)
              .Help(help)
              .Register(registry)
              .Add({});
}

prometheus::Gauge* AddGauge(prometheus::Registry& registry, const char* name,
                            const char* help) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(
      {});
}

// A histogram without labels, and how it is shown.
class ExportedHistogram {
 public:
  ExportedHistogram(std::string name, std::string help, ExportedScale scale)
      : name_(std::move(name)),
        help_(std::move(help)),
        scale_(std::move(scale)),
        values_(LargestBound(scale_)) {}

  void Record(int64_t value) { values_.Record(value); }
  void Record(absl::Duration value) { Record(absl::ToInt64Nanoseconds(value)); }

  prometheus::MetricFamily Collect() const {
    prometheus::ClientMetric metric;
    metric.histogram = CutAtBounds(values_.Snapshot(), scale_);
    return {name_, help_, prometheus::MetricType::Histogram, {metric}};
  }

 private:
  const std::string name_;
  const std::string help_;
  const ExportedScale scale_;
  LockedHistogram values_;
};

// The counters of one family by one label, made when first counted. The map
// keeps the hot path from hashing label sets.
class LabelledCounter {
 public:
  LabelledCounter(prometheus::Registry& registry, const char* name,
                  const char* help, std::string label)
      : family_(prometheus::BuildCounter().Name(name).Help(help).Register(
            registry)),
        label_(std::move(label)) {}

  void Increment(absl::string_view value) { Find(value)->Increment(); }

  // Makes the counter at zero, so that a rate over it has a start.
  prometheus::Counter* Find(absl::string_view value) {
    MutexLock lock(&mutex_);
    auto found = counters_.find(value);
    if (found == counters_.end()) {
      const std::string text(value);
      found = counters_.emplace(text, &family_.Add({{label_, text}})).first;
    }
    return found->second;
  }

 private:
  prometheus::Family<prometheus::Counter>& family_;
  const std::string label_;
  Mutex mutex_;
  std::map<std::string, prometheus::Counter*, std::less<>> counters_
      ABSL_GUARDED_BY(mutex_);
};

// Counts and latencies of RPCs by method, counts also by code.
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

  // Latencies by method, cut at bounds and as quantiles; nothing before the
  // first.
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

struct QueueFamilies {
  explicit QueueFamilies(prometheus::Registry& r)
      : requests(AddGauge(r, "qgemm_queue_requests",
                          "Gemm requests that wait for a launch.")),
        bytes(AddGauge(r, "qgemm_queue_bytes",
                       "Operand bytes that wait for a launch.")),
        dropped(r, "qgemm_requests_dropped_total",
                "Gemm requests that ended before a launch.", "reason") {
    for (const char* reason :
         {"queue_full", "draining", "deadline", "cancelled"}) {
      dropped.Find(reason);
    }
  }

  prometheus::Gauge* requests;
  prometheus::Gauge* bytes;
  LabelledCounter dropped;
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
    return families;
  }

  prometheus::Registry counters_and_gauges;
  RpcFamilies rpcs{counters_and_gauges};
  QueueFamilies queue{counters_and_gauges};
  LaunchFamilies launch{counters_and_gauges};
  WeightsFamilies weights{counters_and_gauges};
};

ServerMetrics::ServerMetrics() : families_(std::make_shared<Families>()) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::RpcEnded(absl::string_view method, absl::StatusCode code,
                             absl::Duration latency) {
  families_->rpcs.Ended(method, code, latency);
}

void ServerMetrics::SetQueueDepth(int64_t requests, int64_t bytes) {
  families_->queue.requests->Set(static_cast<double>(requests));
  families_->queue.bytes->Set(static_cast<double>(bytes));
}

void ServerMetrics::RequestDropped(absl::string_view reason) {
  families_->queue.dropped.Increment(reason);
}

void ServerMetrics::LaunchEnded(int64_t rows, int64_t requests,
                                absl::Duration queue, absl::Duration kernel) {
  families_->launch.rows.Record(rows);
  families_->launch.requests.Record(requests);
  families_->launch.queue.Record(queue);
  families_->launch.kernel.Record(kernel);
}

void ServerMetrics::LaunchFailed(absl::StatusCode code) {
  families_->launch.errors.Increment(absl::StatusCodeToString(code));
}

void ServerMetrics::SetWeights(int64_t count, int64_t bytes) {
  SetWeightsCount(count);
  SetWeightsBytes(bytes);
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

std::shared_ptr<prometheus::Collectable> ServerMetrics::registry() const {
  return families_;
}

}  // namespace qgemm
