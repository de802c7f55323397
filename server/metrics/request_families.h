// SPDX-License-Identifier: Apache-2.0
//
// What is counted of Gemm requests: those that wait, how they ended, where
// their time went.

#ifndef QGEMM_SERVER_METRICS_REQUEST_FAMILIES_H_
#define QGEMM_SERVER_METRICS_REQUEST_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "server/metrics/drop_reason.h"
#include "server/metrics/locked_histogram.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/request_stages.h"

namespace qgemm {

// As labels show it.
const char* NameOf(DropReason reason);

// The counters of one family by reason and stage, all made at once, so that a
// rate over any has a start.
class DropFamily {
 public:
  explicit DropFamily(prometheus::Registry& registry);

  // A pair that happens, as docs/metrics.md lists them.
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

// Where the time of requests goes, by stage. Thread-safe.
class StageFamily {
 public:
  StageFamily();

  void Record(const RequestStages& stages);
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
