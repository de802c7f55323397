// SPDX-License-Identifier: Apache-2.0
//
// Metric families of the server as a whole: its health, connections, bytes of
// the transports, calls that ran out of time, what it is.

#ifndef QGEMM_SERVER_METRICS_SERVER_FAMILIES_H_
#define QGEMM_SERVER_METRICS_SERVER_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/metrics/metric_families.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// The state as a set of gauges, of which one is 1, and its reason. Thread-safe.
class HealthFamily {
 public:
  explicit HealthFamily(prometheus::Registry& registry);

  void Set(HealthState state, absl::string_view reason);
  HealthReport Get() const;

 private:
  static constexpr int kStates = 4;

  prometheus::Gauge* gauges_[kStates] = {};
  mutable Mutex mutex_;
  HealthReport report_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe; counting bytes takes no lock.
class TransportFamilies {
 public:
  explicit TransportFamilies(prometheus::Registry& registry);

  // `transport` is "tcp", "unix", "tls" or "lane".
  void ConnectionsChanged(absl::string_view transport, int64_t delta);
  void AddBytes(absl::string_view transport, Direction direction,
                int64_t bytes);

  LabelledCounter refused;

 private:
  struct Transport {
    prometheus::Gauge* open = nullptr;
    prometheus::Counter* accepted = nullptr;
    prometheus::Counter* received = nullptr;
    prometheus::Counter* sent = nullptr;
  };

  Transport& Of(absl::string_view name);

  Transport tcp_;
  Transport unix_;
  Transport tls_;
  Transport lane_;
};

// Memory shared with clients, and the ends of lanes.
struct LaneFamilies {
  explicit LaneFamilies(prometheus::Registry& registry);

  prometheus::Gauge* bytes;
  prometheus::Counter* wakes;
  LabelledCounter ended;
};

// Bounds of memory.
struct MemoryLimitFamilies {
  explicit MemoryLimitFamilies(prometheus::Registry& r)
      : staging(AddGauge(r, "qgemm_staging_limit_bytes",
                         "Bound of host memory for operands; 0 is none.")),
        process(AddGauge(r, "qgemm_memory_limit_bytes",
                         "Bound of the process's memory; 0 is unknown.")) {}

  prometheus::Gauge* staging;
  prometheus::Gauge* process;
};

// Layers, programs and their names.
struct WeightsFamilies {
  explicit WeightsFamilies(prometheus::Registry& r)
      : layers(AddGauge(r, "qgemm_weights_layers", "Layers that are held.")),
        names(AddGauge(r, "qgemm_weights_names", "Names that are bound.")),
        bytes(AddGauge(r, "qgemm_weights_bytes",
                       "Bytes of the weights budget that are held.")),
        budget(AddGauge(r, "qgemm_weights_budget_bytes",
                        "The weights budget; 0 is no limit.")),
        uploaded(AddCounter(r, "qgemm_uploaded_bytes_total",
                            "Section bytes received by LoadWeights.")) {}

  prometheus::Gauge* layers;
  prometheus::Gauge* names;
  prometheus::Gauge* bytes;
  prometheus::Gauge* budget;
  prometheus::Counter* uploaded;
};

struct ProgramFamilies {
  explicit ProgramFamilies(prometheus::Registry& r)
      : programs(AddGauge(r, "qgemm_programs", "Programs that are held.")),
        names(AddGauge(r, "qgemm_program_names",
                       "Names that are bound to programs.")) {}

  prometheus::Gauge* programs;
  prometheus::Gauge* names;
};

// Certificates and handshakes.
struct TlsFamilies {
  explicit TlsFamilies(prometheus::Registry& registry);

  prometheus::Family<prometheus::Gauge>& expiry;
  prometheus::Counter* reload_failures;
  LabelledCounter handshake_failures;
};

// Calls in progress and those that were ended for being slow.
struct CallFamilies {
  explicit CallFamilies(prometheus::Registry& registry);

  LabelledCounter timed_out;
  prometheus::Gauge* streams;
  prometheus::Gauge* uploads;
  prometheus::Gauge* uploads_waiting;
  prometheus::Counter* uploads_continued;
  prometheus::Gauge* answers;
  prometheus::Gauge* answer_bytes;
};

// Calls that the access table refused, and tables that were refused.
struct AccessFamilies {
  explicit AccessFamilies(prometheus::Registry& registry);

  LabelledCounter denied;
  prometheus::Counter* reload_failures;
};

// Registers qgemm_build_info, which is always 1.
void AddBuildInfo(prometheus::Registry& registry, const BuildInfo& build);

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_SERVER_FAMILIES_H_
