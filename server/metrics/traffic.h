// SPDX-License-Identifier: Apache-2.0
//
// Counts of requests by layer and by client, under a bound on their number:
// every label value is a time series that a scraper keeps.

#ifndef QGEMM_SERVER_METRICS_TRAFFIC_H_
#define QGEMM_SERVER_METRICS_TRAFFIC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"

namespace qgemm {

// Requests of one layer, or of one client. Thread-safe, without locks. On cache
// lines of its own: the threads that hold it for a request count references
// beside it, and others what they computed.
class alignas(64) Traffic {
 public:
  void RequestComputed(int64_t rows) {
    requests_.fetch_add(1, std::memory_order_relaxed);
    rows_.fetch_add(rows, std::memory_order_relaxed);
  }
  // Counts a request that was refused or dropped, or that failed.
  void RequestDropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  // Adds to, or takes from, the memory that is held for it.
  void AddBytes(int64_t delta) {
    bytes_.fetch_add(delta, std::memory_order_relaxed);
  }

  int64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  int64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> rows_{0};
  std::atomic<int64_t> dropped_{0};
  std::atomic<int64_t> bytes_{0};
};

// Both counts of a request; a null one is not kept.
struct RequestTraffic {
  std::shared_ptr<Traffic> layer;
  std::shared_ptr<Traffic> client;

  void RequestComputed(int64_t rows) const {
    if (layer != nullptr) layer->RequestComputed(rows);
    if (client != nullptr) client->RequestComputed(rows);
  }
  void RequestDropped() const {
    if (layer != nullptr) layer->RequestDropped();
    if (client != nullptr) client->RequestDropped();
  }
};

// Traffic by the value of one label. Thread-safe.
class TrafficTable {
 public:
  // The value that stands for all that found no place.
  static constexpr absl::string_view kOther = "other";

  explicit TrafficTable(size_t max_values)
      : max_values_(max_values), other_(std::make_shared<Traffic>()) {}

  // Returns the counts of `value`, which keeps its place as long as somebody
  // holds them. While all places are held, further values share those of
  // "other"; a value that nobody holds loses its place to a further one, the
  // one asked for longest ago first, and its counts are forgotten.
  std::shared_ptr<Traffic> Get(absl::string_view value);

  // Returns all values with their counts, "other" last.
  struct Entry {
    std::string value;
    std::shared_ptr<const Traffic> traffic;
  };
  std::vector<Entry> Entries() const;

 private:
  struct Place {
    std::shared_ptr<Traffic> traffic;
    int64_t last_asked = 0;
  };

  // Takes the place of a value that nobody holds; false if there is none.
  bool FreeOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_values_;
  const std::shared_ptr<Traffic> other_;
  mutable Mutex mutex_;
  int64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Place, std::less<>> places_ ABSL_GUARDED_BY(mutex_);
};

// Layers and clients with series of their own.
struct TrafficFamilies {
  static constexpr size_t kMaxLayers = 128;
  static constexpr size_t kMaxClients = 64;

  void Collect(MetricFamilies* families) const;

  TrafficTable layers{kMaxLayers};
  TrafficTable clients{kMaxClients};
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_TRAFFIC_H_
