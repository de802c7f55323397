// SPDX-License-Identifier: Apache-2.0
//
// Metric families of Gemm requests: waiting ones, outcomes, time by stage.

#ifndef QGEMM_SERVER_METRICS_REQUEST_FAMILIES_H_
#define QGEMM_SERVER_METRICS_REQUEST_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// Returns the value of the `reason` label.
const char* NameOf(DropReason reason);

// Counters of one family by reason and stage, all made at once, so that a rate
// over any has a start.
class DropFamily {
 public:
  explicit DropFamily(prometheus::Registry& registry);

  // `reason` and `stage` are one of the pairs in docs/metrics.md.
  void Increment(DropReason reason, DropStage stage);

 private:
  static constexpr int kReasons = 6;
  static constexpr int kStages = 3;

  prometheus::Counter*& At(DropReason reason, DropStage stage) {
    return counters_[static_cast<int>(reason)][static_cast<int>(stage)];
  }
  void Add(DropReason reason, DropStage stage);

  prometheus::Family<prometheus::Counter>& family_;
  prometheus::Counter* counters_[kReasons][kStages] = {};
};

struct QueueFamilies {
  explicit QueueFamilies(prometheus::Registry& registry);

  prometheus::Gauge* requests;
  prometheus::Gauge* rows;
  prometheus::Gauge* bytes;
  prometheus::Gauge* launches;
  DropFamily dropped;
};

// Histograms of request time by stage. Thread-safe.
class StageFamily {
 public:
  StageFamily();

  void Record(absl::Span<const GemmTimings* const> timings);
  prometheus::MetricFamily Collect() const;

 private:
  std::vector<Histogram> Snapshot() const;

  const ExportedScale scale_ = DeviceScale();
  mutable Mutex mutex_;
  std::vector<Histogram> histograms_ ABSL_GUARDED_BY(mutex_);
};

struct RequestFamilies {
  explicit RequestFamilies(prometheus::Registry& registry);

  prometheus::Counter* accepted;
  prometheus::Counter* computed;
  prometheus::Counter* failed;
  prometheus::Counter* accepted_rows;
  prometheus::Counter* computed_rows;
  LabelledCounter wasted;
  StageFamily stages;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_REQUEST_FAMILIES_H_
