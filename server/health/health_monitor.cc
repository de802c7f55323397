// SPDX-License-Identifier: Apache-2.0
//
// Publishes first and logs then: a log that nobody reads blocks its writers.

#include "server/health/health_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/log.h"

namespace qgemm {
namespace {

// Looks later than so many intervals were held up themselves: a launch may have
// been held up by the same cause for the rest of the time.
constexpr int kMaxIntervalsAged = 5;

// A reason may hold a time that grows. That of a start says what is awaited.
bool IsSame(const Health& one, const Health& other) {
  return one.state == other.state && one.is_fatal == other.is_fatal &&
         (one.state != HealthState::kStarting || one.reason == other.reason);
}

void Log(const Health& health) {
  const absl::string_view state = NameOf(health.state);
  if (health.state == HealthState::kFailed) {
    EVENT(ERROR, "health", state)
        .With("state", state)
        .With("fatal", health.is_fatal)
        .With("reason", health.reason);
  } else if (health.state == HealthState::kStarting) {
    EVENT(INFO, "health", state)
        .With("state", state)
        .With("reason", health.reason);
  } else {
    EVENT(INFO, "health", state).With("state", state);
  }
}

}  // namespace

HealthMonitor::HealthMonitor(const HealthMonitorOptions& options,
                             HealthSources sources, const Clock* clock,
                             Publish publish)
    : options_(options),
      sources_(std::move(sources)),
      clock_(clock),
      publish_(std::move(publish)),
      has_layers_(sources_.awaited_layers == nullptr),
      has_names_(sources_.missing_name == nullptr) {
  facts_.launch_timeout = options_.launch_timeout;
}

HealthMonitor::~HealthMonitor() { Stop(); }

void HealthMonitor::Start() {
  thread_ = std::thread([this] { Watch(); });
}

void HealthMonitor::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void HealthMonitor::Watch() {
  while (true) {
    Look();
    MutexLock lock(&mutex_);
    if (!stopping_) stopped_.WaitFor(&mutex_, options_.interval);
    if (stopping_) return;
  }
}

void HealthMonitor::SetStarted() {
  MutexLock lock(&look_mutex_);
  facts_.started = true;
  Look(clock_->Now());
}

void HealthMonitor::SetDraining() {
  MutexLock lock(&look_mutex_);
  facts_.draining = true;
  Look(clock_->Now());
}

void HealthMonitor::Observe(Publish observe) {
  MutexLock lock(&look_mutex_);
  observe_ = std::move(observe);
}

void HealthMonitor::Look() {
  MutexLock lock(&look_mutex_);
  const absl::Time now = clock_->Now();
  if (facts_.started && !facts_.draining) ProbeListeners(now);
  Look(now);
}

void HealthMonitor::Look(absl::Time now) {
  const absl::Duration passed = now - last_look_.value_or(now);
  last_look_ = now;
  AgeLaunch(std::clamp(passed, absl::ZeroDuration(),
                       kMaxIntervalsAged * options_.interval));
  LookForLayers();
  LookForNames();
  facts_.backend = sources_.backend_failure();
  PublishChange(DecideHealth(facts_));
  if (observe_ != nullptr) observe_(health());
}

void HealthMonitor::PublishChange(const Health& health) {
  {
    MutexLock lock(&mutex_);
    if (health_.is_fatal || IsSame(health, health_)) return;
    health_ = health;
  }
  publish_(health);
  Log(health);
}

void HealthMonitor::AgeLaunch(absl::Duration passed) {
  const std::optional<uint64_t> oldest = sources_.oldest_launch();
  const uint64_t progress = sources_.backend_progress();
  const bool stands_still =
      oldest.has_value() && oldest == oldest_ && progress == progress_;
  facts_.oldest_launch =
      stands_still ? facts_.oldest_launch + passed : absl::ZeroDuration();
  oldest_ = oldest;
  progress_ = progress;
}

void HealthMonitor::LookForLayers() {
  if (has_layers_ || !facts_.started) return;
  facts_.awaited_layers = sources_.awaited_layers();
  has_layers_ = facts_.awaited_layers.empty();
}

void HealthMonitor::LookForNames() {
  if (has_names_ || !facts_.started) return;
  facts_.missing_name = sources_.missing_name();
  has_names_ = facts_.missing_name.empty();
}

void HealthMonitor::ProbeListeners(absl::Time now) {
  if (sources_.probe_listeners == nullptr || now < next_probe_) return;
  facts_.listeners = sources_.probe_listeners();
  next_probe_ = now + options_.probe_interval;
}

Health HealthMonitor::health() const {
  MutexLock lock(&mutex_);
  return health_;
}

absl::Status HealthMonitor::failure() const {
  const Health last = health();
  if (!last.is_fatal) return absl::OkStatus();
  return absl::UnavailableError(last.reason);
}

}  // namespace qgemm
