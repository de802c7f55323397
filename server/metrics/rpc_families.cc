// SPDX-License-Identifier: Apache-2.0
//
// A counter is made when its code first comes.

#include "server/metrics/rpc_families.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <tuple>

#include "base/check.h"

namespace qgemm {

RpcMethod::RpcMethod(std::string name, Family* ended)
    : name_(std::move(name)),
      ended_(ended),
      latency_ns_(LargestBound(LatencyScale())) {}

void RpcMethod::Ended(absl::StatusCode code, absl::Duration latency) {
  CounterOf(code)->Increment();
  latency_ns_.Record(absl::ToInt64Nanoseconds(latency));
}

prometheus::Counter* RpcMethod::CounterOf(absl::StatusCode code) {
  const auto index = static_cast<int>(code);
  CHECK(index >= 0 && index < kCodes);
  std::atomic<prometheus::Counter*>& place = by_code_[index];
  prometheus::Counter* counter = place.load(std::memory_order_acquire);
  if (counter == nullptr) {
    // Two threads get the same one.
    counter = &ended_->Add(
        {{"method", name_}, {"code", absl::StatusCodeToString(code)}});
    place.store(counter, std::memory_order_release);
  }
  return counter;
}

RpcFamilies::RpcFamilies(prometheus::Registry& registry)
    : ended_(prometheus::BuildCounter()
                 .Name("qgemm_rpcs_total")
                 .Help("RPCs that ended.")
                 .Register(registry)) {}

RpcMethod* RpcFamilies::Find(absl::string_view name) {
  MutexLock lock(&mutex_);
  const auto found = methods_.find(name);
  if (found != methods_.end()) return &found->second;
  return &methods_
              .emplace(std::piecewise_construct, std::forward_as_tuple(name),
                       std::forward_as_tuple(std::string(name), &ended_))
              .first->second;
}

void RpcFamilies::Collect(MetricFamilies* families) const {
  prometheus::MetricFamily latency = {"qgemm_rpc_latency_seconds",
                                      "Time from a received RPC to its answer.",
                                      prometheus::MetricType::Histogram,
                                      {}};
  for (const RpcMethod* const method : Methods()) {
    const Histogram latencies = method->Latencies();
    if (latencies.count() == 0) continue;
    prometheus::ClientMetric metric;
    metric.label = {{"method", method->name()}};
    metric.histogram = CutAtBounds(latencies, LatencyScale());
    latency.metric.push_back(std::move(metric));
  }
  if (!latency.metric.empty()) families->push_back(std::move(latency));
}

std::vector<const RpcMethod*> RpcFamilies::Methods() const {
  MutexLock lock(&mutex_);
  std::vector<const RpcMethod*> methods;
  for (const auto& entry : methods_) methods.push_back(&entry.second);
  return methods;
}

}  // namespace qgemm
