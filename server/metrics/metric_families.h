// SPDX-License-Identifier: Apache-2.0
//
// Building blocks of metric families: scales, counters, gauges, histograms. The
// families themselves are in request_families.h and server_metrics.cc.

#ifndef QGEMM_SERVER_METRICS_METRIC_FAMILIES_H_
#define QGEMM_SERVER_METRICS_METRIC_FAMILIES_H_

#include <prometheus/client_metric.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/histogram.h"
#include "base/mutex.h"

namespace qgemm {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

inline constexpr double kNanosecondsPerSecond = 1e9;

// Histogram that threads record in while another reads it. Thread-safe.
class LockedHistogram {
 public:
  // Values above `max_value` are recorded too, but the first may allocate.
  explicit LockedHistogram(int64_t max_value) : histogram_(max_value) {}

  void Record(int64_t value) {
    MutexLock lock(&mutex_);
    histogram_.Record(value);
  }

  Histogram Snapshot() const {
    MutexLock lock(&mutex_);
    return histogram_;
  }

 private:
  mutable Mutex mutex_;
  Histogram histogram_ ABSL_GUARDED_BY(mutex_);
};

// Bounds and unit in which a histogram of integers is exported.
struct ExportedScale {
  std::vector<double> bounds;  // ascending, in the exported unit
  double values_per_unit = 1;  // 1e9: nanoseconds shown as seconds
};

// Returns cumulative counts at every bound and at infinity, the exact count and
// the exact sum. A value is counted at a bound that it exceeds if both lie in
// one bucket of the histogram: by less than 1/1024.
prometheus::ClientMetric::Histogram CutAtBounds(const Histogram& histogram,
                                                const ExportedScale& scale);

// Durations in nanoseconds. 10 µs, a wake-up, to 42 s, a large upload.
ExportedScale LatencyScale();
// 1 µs, an idle queue or a small kernel, to 8.4 s.
ExportedScale DeviceScale();
// 1 to 8192 rows.
ExportedScale RowScale();
// 1 to 256 requests.
ExportedScale RequestScale();

// Returns the last bound in the histogram's own values.
int64_t LargestBound(const ExportedScale& scale);

prometheus::Counter* AddCounter(prometheus::Registry& registry,
                                const char* name, const char* help);
prometheus::Gauge* AddGauge(prometheus::Registry& registry, const char* name,
                            const char* help);

// Returns a family of one gauge without labels, read at the scrape.
prometheus::MetricFamily SampledGauge(const char* name, const char* help,
                                      double value);

// Histogram without labels, with its name and scale. Thread-safe.
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

// Counters of one family by one label, each made at its first increment. The
// map keeps the hot path from hashing label sets. Thread-safe.
class LabelledCounter {
 public:
  LabelledCounter(prometheus::Registry& registry, const char* name,
                  const char* help, std::string label)
      : family_(prometheus::BuildCounter().Name(name).Help(help).Register(
            registry)),
        label_(std::move(label)) {}

  void Increment(absl::string_view value) { Find(value)->Increment(); }

  // Returns the counter; makes it at zero, so that a rate over it has a start.
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

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_METRIC_FAMILIES_H_
