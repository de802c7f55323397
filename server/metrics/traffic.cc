// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/traffic.h"

#include <functional>
#include <utility>

namespace qgemm {
namespace {

// One family: a figure of every entry, under the label's name.
struct TrafficFamily {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  int64_t (Traffic::*figure)() const;
};

constexpr prometheus::MetricType kCounter = prometheus::MetricType::Counter;
constexpr prometheus::MetricType kGauge = prometheus::MetricType::Gauge;

constexpr TrafficFamily kOfLayers[] = {
    {"qgemm_layer_requests_total", "Computed requests, by layer.", kCounter,
     &Traffic::requests},
    {"qgemm_layer_rows_total",
     "Activation rows of computed requests, by layer.", kCounter,
     &Traffic::rows},
    {"qgemm_layer_dropped_total", "Requests without a result, by layer.",
     kCounter, &Traffic::dropped},
    {"qgemm_layer_bytes", "Memory that holds a layer.", kGauge,
     &Traffic::bytes},
};
constexpr TrafficFamily kOfClients[] = {
    {"qgemm_client_requests_total", "Computed requests, by client.", kCounter,
     &Traffic::requests},
    {"qgemm_client_rows_total",
     "Activation rows of computed requests, by client.", kCounter,
     &Traffic::rows},
    {"qgemm_client_dropped_total", "Requests without a result, by client.",
     kCounter, &Traffic::dropped},
};

prometheus::MetricFamily Show(const TrafficFamily& family, const char* label,
                              const std::vector<TrafficTable::Entry>& entries) {
  prometheus::MetricFamily shown = {family.name, family.help, family.type, {}};
  for (const TrafficTable::Entry& entry : entries) {
    const auto value =
        static_cast<double>(std::invoke(family.figure, *entry.traffic));
    prometheus::ClientMetric metric;
    metric.label = {{label, entry.value}};
    metric.counter.value = value;
    metric.gauge.value = value;
    shown.metric.push_back(std::move(metric));
  }
  return shown;
}

}  // namespace

std::shared_ptr<Traffic> TrafficTable::Get(absl::string_view value) {
  MutexLock lock(&mutex_);
  if (value == kOther) return other_;
  auto found = places_.find(value);
  if (found == places_.end()) {
    if (places_.size() >= max_values_ && !FreeOne()) return other_;
    found =
        places_.emplace(std::string(value), Place{std::make_shared<Traffic>()})
            .first;
  }
  found->second.last_asked = ++asked_;
  return found->second.traffic;
}

bool TrafficTable::FreeOne() {
  auto oldest = places_.end();
  for (auto place = places_.begin(); place != places_.end(); ++place) {
    // Only Get makes holders of what this table alone holds, under the lock.
    if (place->second.traffic.use_count() > 1) continue;
    if (oldest == places_.end() ||
        place->second.last_asked < oldest->second.last_asked) {
      oldest = place;
    }
  }
  if (oldest == places_.end()) return false;
  places_.erase(oldest);
  return true;
}

std::vector<TrafficTable::Entry> TrafficTable::Entries() const {
  MutexLock lock(&mutex_);
  std::vector<Entry> entries;
  for (const auto& [value, place] : places_) {
    entries.push_back({value, place.traffic});
  }
  entries.push_back({std::string(kOther), other_});
  return entries;
}

void TrafficFamilies::Collect(MetricFamilies* families) const {
  const auto layer_entries = layers.Entries();
  for (const TrafficFamily& family : kOfLayers) {
    families->push_back(Show(family, "layer", layer_entries));
  }
  const auto client_entries = clients.Entries();
  for (const TrafficFamily& family : kOfClients) {
    families->push_back(Show(family, "client", client_entries));
  }
}

}  // namespace qgemm
