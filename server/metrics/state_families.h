// SPDX-License-Identifier: Apache-2.0
//
// Metric families of memory and the state directory: what they have, and the
// way of layers between them.

#ifndef QGEMM_SERVER_METRICS_STATE_FAMILIES_H_
#define QGEMM_SERVER_METRICS_STATE_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// Gauges sampled at each scrape. Thread-safe.
class MemoryFamilies {
 public:
  void Sample(absl::AnyInvocable<MemoryFigures()> sample);
  // Appends nothing while no sample function is registered.
  void Collect(MetricFamilies* families) const;

 private:
  mutable Mutex mutex_;
  mutable absl::AnyInvocable<MemoryFigures()> sample_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class StateFamilies {
 public:
  explicit StateFamilies(prometheus::Registry& registry);

  // Null: there is no state directory, and Collect appends nothing.
  void Sample(absl::AnyInvocable<StateFigures()> sample);
  void Collect(MetricFamilies* families) const;

  LabelledCounter loads;
  LabelledCounter image_loads;
  prometheus::Counter* load_seconds;
  prometheus::Counter* inherited_layers;
  prometheus::Counter* inherited_bytes;
  prometheus::Counter* dropped_layers;
  prometheus::Counter* inheritance_seconds;
  prometheus::Counter* evictions;
  prometheus::Counter* damaged_files;
  prometheus::Counter* verified_bytes;

 private:
  mutable Mutex mutex_;
  mutable absl::AnyInvocable<StateFigures()> sample_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_STATE_FAMILIES_H_
