// SPDX-License-Identifier: Apache-2.0
//
// Names and label values are those of docs/metrics.md.

#include "server/metrics/request_families.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace qgemm {
namespace {

constexpr const char* kStageNames[] = {"queue", "h2d", "kernel", "d2h",
                                       "total"};

const char* NameOf(DropStage stage) {
  switch (stage) {
    case DropStage::kAdmission:
      return "admission";
    case DropStage::kQueue:
      return "queue";
    case DropStage::kChunks:
      return "chunks";
  }
  return "";
}

}  // namespace

const char* NameOf(DropReason reason) {
  switch (reason) {
    case DropReason::kQueueFull:
      return "queue_full";
    case DropReason::kQuota:
      return "quota";
    case DropReason::kTooLarge:
      return "too_large";
    case DropReason::kDraining:
      return "draining";
    case DropReason::kDeadline:
      return "deadline";
    case DropReason::kCancelled:
      return "cancelled";
  }
  return "";
}

DropFamily::DropFamily(prometheus::Registry& registry)
    : family_(prometheus::BuildCounter()
                  .Name("qgemm_requests_dropped_total")
                  .Help("Gemm requests that ended without a result.")
                  .Register(registry)) {
  for (const DropReason reason :
       {DropReason::kQueueFull, DropReason::kQuota, DropReason::kTooLarge,
        DropReason::kDraining}) {
    Add(reason, DropStage::kAdmission);
  }
  for (const DropReason reason :
       {DropReason::kDraining, DropReason::kDeadline, DropReason::kCancelled}) {
    Add(reason, DropStage::kQueue);
    Add(reason, DropStage::kChunks);
  }
}

void DropFamily::Increment(DropReason reason, DropStage stage) {
  prometheus::Counter* const counter = At(reason, stage);
  CHECK(counter != nullptr);
  counter->Increment();
}

void DropFamily::Add(DropReason reason, DropStage stage) {
  At(reason, stage) =
      &family_.Add({{"reason", NameOf(reason)}, {"stage", NameOf(stage)}});
}

QueueFamilies::QueueFamilies(prometheus::Registry& registry)
    : requests(AddGauge(registry, "qgemm_queue_requests",
                        "Gemm requests that wait for a launch.")),
      rows(AddGauge(registry, "qgemm_queue_rows",
                    "Activation rows that wait for a launch.")),
      bytes(AddGauge(registry, "qgemm_queue_bytes",
                     "Operand bytes that wait for a launch.")),
      launches(AddGauge(registry, "qgemm_launches_in_flight",
                        "Launches that the backend has not ended.")),
      dropped(registry) {}

StageFamily::StageFamily()
    : histograms_(std::size(kStageNames), Histogram(LargestBound(scale_))) {}

void StageFamily::Record(absl::Span<const GemmTimings* const> timings) {
  MutexLock lock(&mutex_);
  for (const GemmTimings* const each : timings) {
    const absl::Duration values[] = {each->queue, each->host_to_device,
                                     each->kernel, each->device_to_host,
                                     each->total};
    static_assert(std::size(values) == std::size(kStageNames),
                  "every stage has a name");
    for (size_t i = 0; i < std::size(values); ++i) {
      histograms_[i].Record(absl::ToInt64Nanoseconds(values[i]));
    }
  }
}

prometheus::MetricFamily StageFamily::Collect() const {
  prometheus::MetricFamily family = {
      "qgemm_request_stage_seconds",
      "Where the time of computed requests went.",
      prometheus::MetricType::Histogram,
      {}};
  const std::vector<Histogram> snapshots = Snapshot();
  for (size_t i = 0; i < snapshots.size(); ++i) {
    prometheus::ClientMetric metric;
    metric.label = {{"stage", kStageNames[i]}};
    metric.histogram = CutAtBounds(snapshots[i], scale_);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

std::vector<Histogram> StageFamily::Snapshot() const {
  MutexLock lock(&mutex_);
  return histograms_;
}

RequestFamilies::RequestFamilies(prometheus::Registry& registry)
    : accepted(AddCounter(registry, "qgemm_requests_accepted_total",
                          "Gemm requests that were taken into the queue.")),
      computed(AddCounter(registry, "qgemm_requests_computed_total",
                          "Gemm requests with a result.")),
      failed(AddCounter(registry, "qgemm_requests_failed_total",
                        "Gemm requests whose launch failed.")),
      accepted_rows(AddCounter(registry, "qgemm_rows_accepted_total",
                               "Activation rows of accepted requests.")),
      computed_rows(AddCounter(registry, "qgemm_rows_computed_total",
                               "Activation rows of computed requests.")),
      wasted(registry, "qgemm_requests_wasted_total",
             "Gemm requests computed when nobody waited any more.", "reason") {
  wasted.Find(NameOf(DropReason::kDeadline));
  wasted.Find(NameOf(DropReason::kCancelled));
}

}  // namespace qgemm
