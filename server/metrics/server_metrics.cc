// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace qgemm {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// `count` bounds, each `factor` times the one before.
Buckets Exponential(double first, double factor, int count) {
  Buckets bounds;
  for (double bound = first; count > 0; --count, bound *= factor) {
    bounds.push_back(bound);
  }
  return bounds;
}

// 10 µs, a wake-up, to 42 s, a large upload.
Buckets LatencyBuckets() { return Exponential(10e-6, 2, 23); }
// 1 µs, an idle queue or a small kernel, to 8.4 s.
Buckets DeviceBuckets() { return Exponential(1e-6, 2, 24); }
// 1 to 8192 rows.
Buckets RowBuckets() { return Exponential(1, 2, 14); }
// 1 to 256 requests.
Buckets RequestBuckets() { return Exponential(1, 2, 9); }

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

prometheus::Histogram* AddHistogram(prometheus::Registry& registry,
                                    const char* name, const char* help,
                                    const Buckets& buckets) {
  return &prometheus::BuildHistogram()
              .Name(name)
              .Help(help)
              .Register(registry)
              .Add({}, buckets);
}

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
                   .Register(registry)),
        latency_(prometheus::BuildHistogram()
                     .Name("qgemm_rpc_latency_seconds")
                     .Help("Time from a received RPC to its answer.")
                     .Register(registry)) {}

  void Ended(absl::string_view method, absl::StatusCode code,
             absl::Duration latency) {
    const auto [counter, histogram] = Find(method, code);
    counter->Increment();
    histogram->Observe(absl::ToDoubleSeconds(latency));
  }

 private:
  struct Method {
    prometheus::Histogram* latency = nullptr;
    std::map<absl::StatusCode, prometheus::Counter*> by_code;
  };

  std::pair<prometheus::Counter*, prometheus::Histogram*> Find(
      absl::string_view name, absl::StatusCode code) {
    MutexLock lock(&mutex_);
    auto found = methods_.find(name);
    if (found == methods_.end()) {
      found = methods_.emplace(std::string(name), Method()).first;
      found->second.latency =
          &latency_.Add({{"method", found->first}}, LatencyBuckets());
    }
    prometheus::Counter*& counter = found->second.by_code[code];
    if (counter == nullptr) {
      counter = &ended_.Add(
          {{"method", found->first}, {"code", absl::StatusCodeToString(code)}});
    }
    return {counter, found->second.latency};
  }

  prometheus::Family<prometheus::Counter>& ended_;
  prometheus::Family<prometheus::Histogram>& latency_;
  Mutex mutex_;
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
      : rows(AddHistogram(r, "qgemm_launch_rows",
                          "Activation rows of a launch.", RowBuckets())),
        requests(AddHistogram(r, "qgemm_launch_requests",
                              "Requests of a launch.", RequestBuckets())),
        queue(AddHistogram(
            r, "qgemm_launch_queue_seconds",
            "Wait of a launch's oldest request until its work started.",
            DeviceBuckets())),
        kernel(AddHistogram(r, "qgemm_launch_kernel_seconds",
                            "Compute time of a launch.", DeviceBuckets())),
        errors(r, "qgemm_launch_errors_total",
               "Launches that the backend refused or failed.", "code") {}

  prometheus::Histogram* rows;
  prometheus::Histogram* requests;
  prometheus::Histogram* queue;
  prometheus::Histogram* kernel;
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

struct ServerMetrics::Families {
  std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  RpcFamilies rpcs{*registry};
  QueueFamilies queue{*registry};
  LaunchFamilies launch{*registry};
  WeightsFamilies weights{*registry};
};

ServerMetrics::ServerMetrics() : families_(std::make_unique<Families>()) {}

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
  families_->launch.rows->Observe(static_cast<double>(rows));
  families_->launch.requests->Observe(static_cast<double>(requests));
  families_->launch.queue->Observe(absl::ToDoubleSeconds(queue));
  families_->launch.kernel->Observe(absl::ToDoubleSeconds(kernel));
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

const std::shared_ptr<prometheus::Registry>& ServerMetrics::registry() const {
  return families_->registry;
}

}  // namespace qgemm
