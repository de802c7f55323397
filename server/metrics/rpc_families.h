// SPDX-License-Identifier: Apache-2.0
//
// Metric families of RPCs: their latencies by method, and their count by method
// and code.

#ifndef QGEMM_SERVER_METRICS_RPC_FAMILIES_H_
#define QGEMM_SERVER_METRICS_RPC_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"

namespace qgemm {

// RPCs of one method. Thread-safe.
class RpcMethod {
 public:
  using Family = prometheus::Family<prometheus::Counter>;

  RpcMethod(std::string name, Family* ended);

  // Counts one that ended.
  void Ended(absl::StatusCode code, absl::Duration latency);

  const std::string& name() const { return name_; }
  Histogram Latencies() const { return latency_ns_.Snapshot(); }

 private:
  static constexpr int kCodes = 17;  // of absl::StatusCode

  prometheus::Counter* CounterOf(absl::StatusCode code);

  const std::string name_;
  Family* const ended_;
  LockedHistogram latency_ns_;
  std::array<std::atomic<prometheus::Counter*>, kCodes> by_code_{};
};

// Thread-safe.
class RpcFamilies {
 public:
  explicit RpcFamilies(prometheus::Registry& registry);

  // Returns the method, made if it is new. It lives as long as this.
  RpcMethod* Find(absl::string_view name);

  // Appends latencies by method; nothing before the first RPC.
  void Collect(MetricFamilies* families) const;

 private:
  std::vector<const RpcMethod*> Methods() const;

  RpcMethod::Family& ended_;
  mutable Mutex mutex_;
  std::map<std::string, RpcMethod, std::less<>> methods_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_RPC_FAMILIES_H_
