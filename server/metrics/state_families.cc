// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/state_families.h"

#include <utility>

namespace qgemm {

void MemoryFamilies::Sample(absl::AnyInvocable<MemoryFigures()> sample) {
  MutexLock lock(&mutex_);
  sample_ = std::move(sample);
}

void MemoryFamilies::Collect(MetricFamilies* families) const {
  MutexLock lock(&mutex_);
  if (sample_ == nullptr) return;
  const MemoryFigures figures = sample_();
  families->push_back(SampledGauge("qgemm_resident_bytes",
                                   "Memory of the backend that holds layers.",
                                   figures.weights_bytes));
  families->push_back(SampledGauge("qgemm_staging_bytes",
                                   "Host memory for operands, in use and kept.",
                                   figures.staging_bytes));
  families->push_back(
      SampledGauge("qgemm_staging_in_use_bytes",
                   "Host memory that holds operands of requests.",
                   figures.staging_in_use_bytes));
}

StateFamilies::StateFamilies(prometheus::Registry& registry)
    : loads(registry, "qgemm_layer_loads_total",
            "Layers brought from the state directory.", "code"),
      image_loads(registry, "qgemm_image_loads_total",
                  "Layers whose image was read.", "code"),
      load_seconds(AddCounter(registry, "qgemm_layer_load_seconds_total",
                              "Time that this took, over all threads.")),
      inherited_layers(
          AddCounter(registry, "qgemm_inherited_layers_total",
                     "Layers that the last server had left in memory.")),
      inherited_bytes(AddCounter(registry, "qgemm_inherited_bytes_total",
                                 "Bytes of those layers.")),
      dropped_layers(AddCounter(registry, "qgemm_dropped_layers_total",
                                "Layers in that memory that were no use.")),
      inheritance_seconds(AddCounter(registry,
                                     "qgemm_inheritance_seconds_total",
                                     "Time that taking them over took.")),
      evictions(AddCounter(registry, "qgemm_layer_evictions_total",
                           "Layers that left memory for others.")),
      damaged_files(AddCounter(registry, "qgemm_state_damaged_files_total",
                               "Files that were set aside.")),
      verified_bytes(AddCounter(registry, "qgemm_state_verified_bytes_total",
                                "Bytes whose hash was compared.")) {
  loads.Find("OK");
  image_loads.Find("OK");
}

void StateFamilies::Sample(absl::AnyInvocable<StateFigures()> sample) {
  MutexLock lock(&mutex_);
  sample_ = std::move(sample);
}

void StateFamilies::Collect(MetricFamilies* families) const {
  MutexLock lock(&mutex_);
  if (sample_ == nullptr) return;
  const StateFigures figures = sample_();
  const auto add = [families](const char* name, const char* help,
                              int64_t value) {
    families->push_back(SampledGauge(name, help, static_cast<double>(value)));
  };
  add("qgemm_state_bytes", "Bytes of files in the state directory.",
      figures.bytes);
  add("qgemm_state_limit_bytes", "Bound of those bytes; 0 is none.",
      figures.limit_bytes);
  add("qgemm_state_layers", "Layers in the state directory.", figures.layers);
  add("qgemm_resident_layers", "Layers in memory.", figures.resident_layers);
  add("qgemm_state_image_bytes", "Bytes of files of images.",
      figures.image_bytes);
  add("qgemm_state_images", "Layers that have an image.", figures.images);
}

}  // namespace qgemm
