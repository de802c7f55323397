// SPDX-License-Identifier: Apache-2.0
//
// A histogram that threads record in while another reads it, and the cut at
// bounds in which Prometheus wants it.

#ifndef QGEMM_SERVER_METRICS_LOCKED_HISTOGRAM_H_
#define QGEMM_SERVER_METRICS_LOCKED_HISTOGRAM_H_

#include <prometheus/client_metric.h>

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/histogram.h"
#include "base/mutex.h"

namespace qgemm {

// Thread-safe.
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

// How a histogram of integers is shown.
struct ExportedScale {
  std::vector<double> bounds;  // ascending, in the exported unit
  double values_per_unit = 1;  // 1e9: nanoseconds shown as seconds
};

// Cumulative counts at every bound and at infinity, the exact count and the
// exact sum. A value is counted at a bound that it exceeds if both lie in one
// bucket of the histogram: by less than 1/1024.
prometheus::ClientMetric::Histogram CutAtBounds(const Histogram& histogram,
                                                const ExportedScale& scale);

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_LOCKED_HISTOGRAM_H_
