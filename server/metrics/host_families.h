// SPDX-License-Identifier: Apache-2.0
//
// Metric families that are read from the system at each scrape: the process, by
// the names that all Prometheus clients use, and GPUs, by NVIDIA's management
// library. The server's own are in server_metrics.h.

#ifndef QGEMM_SERVER_METRICS_HOST_FAMILIES_H_
#define QGEMM_SERVER_METRICS_HOST_FAMILIES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/metrics/metric_families.h"

namespace qgemm {

// Appends processor time, memory, open files, threads and the start of this
// process; leaves out what /proc does not tell.
void CollectProcess(MetricFamilies* families);

// One GPU at one moment; what its driver does not tell is missing.
struct GpuFigures {
  std::string uuid;
  std::string name;
  std::optional<double> memory_bytes;
  std::optional<double> memory_used_bytes;
  std::optional<double> utilization_ratio;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> ecc_corrected;
  std::optional<double> ecc_uncorrected;
};

// Asks the driver about all GPUs that it shows this process, on a thread of its
// own: a driver whose GPU hangs may not answer for long, and whoever collects
// must not wait for it. Thread-safe.
class GpuSampler {
 public:
  // The time that Collect waits for the driver.
  static constexpr absl::Duration kPatience = absl::Milliseconds(200);

  // `library` is a file name as dlopen takes it. Without it, or without a GPU,
  // there are no families.
  explicit GpuSampler(std::string library = "libnvidia-ml.so.1");

  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;
  // Leaves the thread to itself if it waits for the driver.
  ~GpuSampler();

  // Appends the families of all GPUs; nothing if the driver has not answered
  // within kPatience.
  void Collect(MetricFamilies* families);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_HOST_FAMILIES_H_
