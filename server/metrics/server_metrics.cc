// SPDX-License-Identifier: Apache-2.0
//
// Counters and gauges live in a registry; histograms are cut at each scrape.

#include "server/metrics/server_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <string>
#include <utility>

#include "server/metrics/metric_families.h"
#include "server/metrics/request_families.h"
#include "server/metrics/rpc_families.h"
#include "server/metrics/server_families.h"
#include "server/metrics/state_families.h"
#include "server/metrics/traffic.h"

namespace qgemm {
namespace {

struct LaunchFamilies {
  explicit LaunchFamilies(prometheus::Registry& r)
      : errors(r, "qgemm_launch_errors_total",
               "Launches that the backend refused or failed.", "code") {}

  void Collect(MetricFamilies* families) const {
    for (const ExportedHistogram* const histogram :
         {&rows, &requests, &queue, &kernel}) {
      families->push_back(histogram->Collect());
    }
  }

  ExportedHistogram rows{"qgemm_launch_rows", "Activation rows of a launch.",
                         RowScale()};
  ExportedHistogram requests{"qgemm_launch_requests", "Requests of a launch.",
                             RequestScale()};
  ExportedHistogram queue{
      "qgemm_launch_queue_seconds",
      "Wait of a launch's oldest request until its work started.",
      DeviceScale()};
  ExportedHistogram kernel{"qgemm_launch_kernel_seconds",
                           "Compute time of a launch.", DeviceScale()};
  LabelledCounter errors;
};

}  // namespace

struct ServerMetrics::Families final : public prometheus::Collectable {
  MetricFamilies Collect() const override {
    MetricFamilies families = counters_and_gauges.Collect();
    rpcs.Collect(&families);
    launch.Collect(&families);
    families.push_back(requests.stages.Collect());
    memory.Collect(&families);
    state.Collect(&families);
    traffic.Collect(&families);
    return families;
  }

  prometheus::Registry counters_and_gauges;
  RpcFamilies rpcs{counters_and_gauges};
  QueueFamilies queue{counters_and_gauges};
  RequestFamilies requests{counters_and_gauges};
  LaunchFamilies launch{counters_and_gauges};
  MemoryFamilies memory;
  StateFamilies state{counters_and_gauges};
  MemoryLimitFamilies limits{counters_and_gauges};
  WeightsFamilies weights{counters_and_gauges};
  ProgramFamilies programs{counters_and_gauges};
  TrafficFamilies traffic;
  HealthFamily health{counters_and_gauges};
  TransportFamilies transport{counters_and_gauges};
  LaneFamilies lanes{counters_and_gauges};
  TlsFamilies tls{counters_and_gauges};
  CallFamilies calls{counters_and_gauges};
  AccessFamilies access{counters_and_gauges};
};

ServerMetrics::ServerMetrics() : families_(std::make_shared<Families>()) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::RpcEnded(absl::string_view method, absl::StatusCode code,
                             absl::Duration latency) {
  Rpc(method)->Ended(code, latency);
}

RpcMethod* ServerMetrics::Rpc(absl::string_view method) {
  return families_->rpcs.Find(method);
}

void ServerMetrics::SetQueueDepth(int64_t requests, int64_t rows,
                                  int64_t bytes) {
  families_->queue.requests->Set(static_cast<double>(requests));
  families_->queue.rows->Set(static_cast<double>(rows));
  families_->queue.bytes->Set(static_cast<double>(bytes));
}

void ServerMetrics::SetLaunchesInFlight(int64_t launches) {
  families_->queue.launches->Set(static_cast<double>(launches));
}

void ServerMetrics::RequestsAccepted(int64_t requests, int64_t rows) {
  families_->requests.accepted->Increment(static_cast<double>(requests));
  families_->requests.accepted_rows->Increment(static_cast<double>(rows));
}

void ServerMetrics::RequestDropped(DropReason reason, DropStage stage) {
  families_->queue.dropped.Increment(reason, stage);
}

void ServerMetrics::RequestsComputed(
    int64_t rows, absl::Span<const GemmTimings* const> timings) {
  families_->requests.computed->Increment(static_cast<double>(timings.size()));
  families_->requests.computed_rows->Increment(static_cast<double>(rows));
  families_->requests.stages.Record(timings);
}

void ServerMetrics::RequestFailed() { families_->requests.failed->Increment(); }

void ServerMetrics::RequestWasted(DropReason reason) {
  families_->requests.wasted.Increment(NameOf(reason));
}

void ServerMetrics::LaunchEnded(const LaunchFigures& launch) {
  families_->launch.rows.Record(launch.rows);
  families_->launch.requests.Record(launch.requests);
  families_->launch.queue.Record(launch.queue);
  families_->launch.kernel.Record(launch.kernel);
}

void ServerMetrics::LaunchFailed(absl::StatusCode code) {
  families_->launch.errors.Increment(absl::StatusCodeToString(code));
}

void ServerMetrics::SetLayerCounts(int64_t layers, int64_t names) {
  families_->weights.layers->Set(static_cast<double>(layers));
  families_->weights.names->Set(static_cast<double>(names));
}

void ServerMetrics::SetWeightsBytes(int64_t bytes) {
  families_->weights.bytes->Set(static_cast<double>(bytes));
}

void ServerMetrics::SetWeightsBudget(int64_t bytes) {
  families_->weights.budget->Set(static_cast<double>(bytes));
}

void ServerMetrics::AddUploadedBytes(int64_t bytes) {
  families_->weights.uploaded->Increment(static_cast<double>(bytes));
}

void ServerMetrics::SetProgramCounts(int64_t programs, int64_t names) {
  families_->programs.programs->Set(static_cast<double>(programs));
  families_->programs.names->Set(static_cast<double>(names));
}

void ServerMetrics::SampleMemory(absl::AnyInvocable<MemoryFigures()> sample) {
  families_->memory.Sample(std::move(sample));
}

void ServerMetrics::SampleState(absl::AnyInvocable<StateFigures()> sample) {
  families_->state.Sample(std::move(sample));
}

void ServerMetrics::LayerBrought(absl::StatusCode code, absl::Duration took) {
  families_->state.loads.Increment(absl::StatusCodeToString(code));
  families_->state.load_seconds->Increment(absl::ToDoubleSeconds(took));
}

void ServerMetrics::LayersEvicted(int64_t layers) {
  families_->state.evictions->Increment(static_cast<double>(layers));
}

void ServerMetrics::ImageRead(absl::StatusCode code) {
  families_->state.image_loads.Increment(absl::StatusCodeToString(code));
}

void ServerMetrics::LayersInherited(int64_t layers, int64_t bytes,
                                    int64_t dropped_layers,
                                    absl::Duration took) {
  StateFamilies& state = families_->state;
  state.inherited_layers->Increment(static_cast<double>(layers));
  state.inherited_bytes->Increment(static_cast<double>(bytes));
  state.dropped_layers->Increment(static_cast<double>(dropped_layers));
  state.inheritance_seconds->Increment(absl::ToDoubleSeconds(took));
}

void ServerMetrics::StateFilesDamaged(int64_t files) {
  families_->state.damaged_files->Increment(static_cast<double>(files));
}

void ServerMetrics::AddVerifiedBytes(int64_t bytes) {
  families_->state.verified_bytes->Increment(static_cast<double>(bytes));
}

std::shared_ptr<Traffic> ServerMetrics::LayerTraffic(absl::string_view layer) {
  return families_->traffic.layers.Get(layer);
}

std::shared_ptr<Traffic> ServerMetrics::ClientTraffic(
    absl::string_view identity) {
  return families_->traffic.clients.Get(identity);
}

void ServerMetrics::SetBuildInfo(const BuildInfo& build) {
  AddBuildInfo(families_->counters_and_gauges, build);
}

void ServerMetrics::SetMemoryLimits(int64_t staging_bytes,
                                    int64_t process_bytes) {
  families_->limits.staging->Set(static_cast<double>(staging_bytes));
  families_->limits.process->Set(static_cast<double>(process_bytes));
}

void ServerMetrics::SetHealth(HealthState state, absl::string_view reason) {
  families_->health.Set(state, reason);
}

HealthReport ServerMetrics::health() const { return families_->health.Get(); }

void ServerMetrics::ConnectionsChanged(absl::string_view transport,
                                       int64_t delta) {
  families_->transport.ConnectionsChanged(transport, delta);
}

void ServerMetrics::ConnectionRefused(absl::string_view reason) {
  families_->transport.refused.Increment(reason);
}

void ServerMetrics::AddTransportBytes(absl::string_view transport,
                                      Direction direction, int64_t bytes) {
  families_->transport.AddBytes(transport, direction, bytes);
}

void ServerMetrics::LaneBytesChanged(int64_t delta) {
  families_->lanes.bytes->Increment(static_cast<double>(delta));
}

void ServerMetrics::LaneEnded(absl::string_view reason) {
  families_->lanes.ended.Increment(reason);
}

void ServerMetrics::LanesWoken() { families_->lanes.wakes->Increment(); }

void ServerMetrics::SetTlsExpiry(absl::string_view certificate,
                                 absl::Time expiry) {
  families_->tls.expiry.Add({{"certificate", std::string(certificate)}})
      .Set(absl::ToDoubleSeconds(expiry - absl::UnixEpoch()));
}

void ServerMetrics::TlsReloadFailed() {
  families_->tls.reload_failures->Increment();
}

void ServerMetrics::TlsHandshakeFailed(absl::string_view reason) {
  families_->tls.handshake_failures.Increment(reason);
}

void ServerMetrics::CallTimedOut(absl::string_view kind) {
  families_->calls.timed_out.Increment(kind);
}

void ServerMetrics::CallDenied(absl::string_view reason) {
  families_->access.denied.Increment(reason);
}

void ServerMetrics::AccessReloadFailed() {
  families_->access.reload_failures->Increment();
}

void ServerMetrics::StreamsChanged(int64_t delta) {
  families_->calls.streams->Increment(static_cast<double>(delta));
}

void ServerMetrics::UploadsChanged(int64_t delta) {
  families_->calls.uploads->Increment(static_cast<double>(delta));
}

void ServerMetrics::SetUploadsWaiting(int64_t uploads) {
  families_->calls.uploads_waiting->Set(static_cast<double>(uploads));
}

void ServerMetrics::UploadContinued() {
  families_->calls.uploads_continued->Increment();
}

void ServerMetrics::AnswersWaitingChanged(int64_t answers, int64_t bytes) {
  families_->calls.answers->Increment(static_cast<double>(answers));
  families_->calls.answer_bytes->Increment(static_cast<double>(bytes));
}

std::shared_ptr<prometheus::Collectable> ServerMetrics::registry() const {
  return families_;
}

}  // namespace qgemm
