// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's management library (NVML), loaded if the driver has installed it.
// Its few functions are declared here: the header comes with the toolkit only.

#include <dlfcn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/metrics/host_families.h"

namespace qgemm {
namespace {

// Types and constants of nvml.h.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total;  // NOLINT(google-runtime-int)
  unsigned long long free;   // NOLINT(google-runtime-int)
  unsigned long long used;   // NOLINT(google-runtime-int)
};
struct NvmlUtilization {
  unsigned int gpu;  // percent
  unsigned int memory;
};
constexpr int kTemperatureOfGpu = 0;
constexpr int kEccCorrected = 0;
constexpr int kEccUncorrected = 1;
constexpr int kSinceDriverLoad = 0;
constexpr int kTextBytes = 96;  // of names and of UUIDs, at most

// The library's functions. Each returns 0 on success.
class Nvml {
 public:
  // False if there is no such library, or no driver behind it.
  bool Load(const std::string& library) {
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return false;
    int (*init)() = nullptr;
    return Find("nvmlInit_v2", &init) &&
           Find("nvmlDeviceGetCount_v2", &count_) &&
           Find("nvmlDeviceGetHandleByIndex_v2", &device_) &&
           Find("nvmlDeviceGetName", &name_) &&
           Find("nvmlDeviceGetUUID", &uuid_) &&
           Find("nvmlDeviceGetMemoryInfo", &memory_) &&
           Find("nvmlDeviceGetUtilizationRates", &utilization_) &&
           Find("nvmlDeviceGetPowerUsage", &power_) &&
           Find("nvmlDeviceGetEnforcedPowerLimit", &power_limit_) &&
           Find("nvmlDeviceGetTemperature", &temperature_) &&
           Find("nvmlDeviceGetTotalEccErrors", &ecc_) && init() == 0;
  }

  std::vector<GpuFigures> Sample() const {
    unsigned int count = 0;
    std::vector<GpuFigures> gpus;
    if (count_(&count) != 0) return gpus;
    for (unsigned int i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      if (device_(i, &device) == 0) gpus.push_back(SampleOne(device));
    }
    return gpus;
  }

 private:
  template <typename Function>
  bool Find(const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return *function != nullptr;
  }

  GpuFigures SampleOne(NvmlDevice device) const {
    constexpr double kMilli = 1e-3;
    GpuFigures gpu;
    char text[kTextBytes] = {};
    if (uuid_(device, text, kTextBytes) == 0) gpu.uuid = text;
    if (name_(device, text, kTextBytes) == 0) gpu.name = text;
    NvmlMemory memory = {};
    if (memory_(device, &memory) == 0) {
      gpu.memory_bytes = static_cast<double>(memory.total);
      gpu.memory_used_bytes = static_cast<double>(memory.used);
    }
    NvmlUtilization utilization = {};
    if (utilization_(device, &utilization) == 0) {
      gpu.utilization_ratio = utilization.gpu / 100.0;
    }
    unsigned int value = 0;
    if (power_(device, &value) == 0) gpu.power_watts = value * kMilli;
    if (power_limit_(device, &value) == 0) {
      gpu.power_limit_watts = value * kMilli;
    }
    if (temperature_(device, kTemperatureOfGpu, &value) == 0) {
      gpu.temperature_celsius = value;
    }
    unsigned long long errors = 0;  // NOLINT(google-runtime-int)
    if (ecc_(device, kEccCorrected, kSinceDriverLoad, &errors) == 0) {
      gpu.ecc_corrected = static_cast<double>(errors);
    }
    if (ecc_(device, kEccUncorrected, kSinceDriverLoad, &errors) == 0) {
      gpu.ecc_uncorrected = static_cast<double>(errors);
    }
    return gpu;
  }

  // Never closed: the library has threads, and the process needs it to its end.
  void* handle_ = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*device_)(unsigned int, NvmlDevice*) = nullptr;
  int (*name_)(NvmlDevice, char*, unsigned int) = nullptr;
  int (*uuid_)(NvmlDevice, char*, unsigned int) = nullptr;
  int (*memory_)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*utilization_)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*power_)(NvmlDevice, unsigned int*) = nullptr;
  int (*power_limit_)(NvmlDevice, unsigned int*) = nullptr;
  int (*temperature_)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*ecc_)(NvmlDevice, int, int,
              unsigned long long*) = nullptr;  // NOLINT(google-runtime-int)
};

struct GpuGauge {
  const char* name;
  const char* help;
  std::optional<double> GpuFigures::*figure;
};
constexpr GpuGauge kGauges[] = {
    {"qgemm_gpu_memory_bytes", "Memory of the GPU.", &GpuFigures::memory_bytes},
    {"qgemm_gpu_memory_used_bytes", "Memory in use, by any process.",
     &GpuFigures::memory_used_bytes},
    {"qgemm_gpu_utilization_ratio", "Share of time in which a kernel ran.",
     &GpuFigures::utilization_ratio},
    {"qgemm_gpu_power_watts", "Power draw.", &GpuFigures::power_watts},
    {"qgemm_gpu_power_limit_watts", "Power limit in force.",
     &GpuFigures::power_limit_watts},
    {"qgemm_gpu_temperature_celsius", "Temperature of the GPU.",
     &GpuFigures::temperature_celsius},
};

prometheus::MetricFamily InfoOf(const std::vector<GpuFigures>& gpus) {
  prometheus::MetricFamily info = {"qgemm_gpu_info",
                                   "1; its labels say which GPU it is.",
                                   prometheus::MetricType::Gauge,
                                   {}};
  for (size_t i = 0; i < gpus.size(); ++i) {
    prometheus::ClientMetric metric;
    metric.label = {{"gpu", absl::StrCat(i)},
                    {"name", gpus[i].name},
                    {"uuid", gpus[i].uuid}};
    metric.gauge.value = 1;
    info.metric.push_back(std::move(metric));
  }
  return info;
}

prometheus::MetricFamily GaugeOf(const std::vector<GpuFigures>& gpus,
                                 const GpuGauge& gauge) {
  prometheus::MetricFamily family = {
      gauge.name, gauge.help, prometheus::MetricType::Gauge, {}};
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::optional<double>& value = gpus[i].*gauge.figure;
    if (!value.has_value()) continue;
    prometheus::ClientMetric metric;
    metric.label = {{"gpu", absl::StrCat(i)}};
    metric.gauge.value = *value;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

prometheus::MetricFamily EccErrorsOf(const std::vector<GpuFigures>& gpus) {
  prometheus::MetricFamily family = {"qgemm_gpu_ecc_errors_total",
                                     "Memory errors since the driver's start.",
                                     prometheus::MetricType::Counter,
                                     {}};
  for (size_t i = 0; i < gpus.size(); ++i) {
    const auto add = [&](const char* kind, const std::optional<double>& value) {
      if (!value.has_value()) return;
      prometheus::ClientMetric metric;
      metric.label = {{"gpu", absl::StrCat(i)}, {"kind", kind}};
      metric.counter.value = *value;
      family.metric.push_back(std::move(metric));
    };
    add("corrected", gpus[i].ecc_corrected);
    add("uncorrected", gpus[i].ecc_uncorrected);
  }
  return family;
}

}  // namespace

struct GpuSampler::State {
  Mutex mutex;
  CondVar changed;
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;  // the thread; no library, say
  int64_t asked ABSL_GUARDED_BY(mutex) = 0;
  int64_t answered ABSL_GUARDED_BY(mutex) = 0;
  std::vector<GpuFigures> gpus ABSL_GUARDED_BY(mutex);

  void Run(const std::string& library) {
    Nvml nvml;
    if (nvml.Load(library)) {
      while (const int64_t number = NextNumber()) {
        Publish(number, nvml.Sample());
      }
    }
    MutexLock lock(&mutex);
    ended = true;
    changed.SignalAll();
  }

  // Waits for a question and returns its number; 0 at the stop.
  int64_t NextNumber() {
    MutexLock lock(&mutex);
    while (!stop && asked == answered) changed.Wait(&mutex);
    return stop ? 0 : asked;
  }

  void Publish(int64_t number, std::vector<GpuFigures> sampled) {
    MutexLock lock(&mutex);
    answered = number;
    gpus = std::move(sampled);
    changed.SignalAll();
  }

  // Waits until the thread has ended or has answered question `number`.
  // Returns false if neither came within kPatience.
  bool WaitFor(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Time patience_ends = SteadyClock().Now() + kPatience;
    while (!ended && answered < number) {
      const absl::Duration left = patience_ends - SteadyClock().Now();
      if (left <= absl::ZeroDuration()) return false;
      changed.WaitFor(&mutex, left);
    }
    return true;
  }
};

GpuSampler::GpuSampler(std::string library)
    : state_(std::make_shared<State>()) {
  std::thread([state = state_, library = std::move(library)] {
    state->Run(library);
  }).detach();
}

GpuSampler::~GpuSampler() {
  MutexLock lock(&state_->mutex);
  state_->stop = true;
  state_->changed.SignalAll();
  // An idle thread ends at once.
  constexpr int64_t kNever = INT64_MAX;
  state_->WaitFor(kNever);
}

void GpuSampler::Collect(MetricFamilies* families) {
  std::vector<GpuFigures> gpus;
  {
    MutexLock lock(&state_->mutex);
    const int64_t number = ++state_->asked;
    state_->changed.SignalAll();
    if (!state_->WaitFor(number)) return;
    gpus = state_->gpus;
  }
  if (gpus.empty()) return;
  families->push_back(InfoOf(gpus));
  for (const GpuGauge& gauge : kGauges) {
    families->push_back(GaugeOf(gpus, gauge));
  }
  families->push_back(EccErrorsOf(gpus));
}

}  // namespace qgemm
