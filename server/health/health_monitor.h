// SPDX-License-Identifier: Apache-2.0
//
// Looks at the parts of the server ten times a second and publishes its health
// when it changes.

#ifndef QGEMM_SERVER_HEALTH_HEALTH_MONITOR_H_
#define QGEMM_SERVER_HEALTH_HEALTH_MONITOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/health/health.h"

namespace qgemm {

struct HealthMonitorOptions {
  absl::Duration interval = absl::Milliseconds(100);
  absl::Duration launch_timeout = absl::Seconds(30);
  // Time from one probe of the listeners to the next.
  absl::Duration probe_interval = absl::Milliseconds(500);
};

// Parts of the server that the monitor looks at. All are quick; none waits for
// the device.
struct HealthSources {
  std::function<absl::Status()> backend_failure;
  // Number of the oldest launch that has not ended.
  std::function<std::optional<uint64_t>()> oldest_launch;
  // Backend::progress().
  std::function<uint64_t()> backend_progress;
  // Null: listeners are taken to answer.
  std::function<absl::Status()> probe_listeners;
  // Says which layers are still to be read from the disk; asked until it is
  // empty once. Null: there are none.
  std::function<std::string()> awaited_layers = nullptr;
  // A name that calls need and that is not bound; asked until it is empty once.
  // Null: there is none.
  std::function<std::string()> missing_name;
};

// A launch's age is the time for which the monitor has seen it as the oldest
// while the backend made no progress: a process that was stopped meanwhile, or
// had no processor, does not age it.
// Failures that are fatal stay. Thread-safe.
class HealthMonitor {
 public:
  // Receives each change, one after the other, on the thread that found it. It
  // must neither call the monitor nor wait for the device.
  using Publish = std::function<void(const Health&)>;

  // `clock` must outlive the monitor.
  HealthMonitor(const HealthMonitorOptions& options, HealthSources sources,
                const Clock* clock, Publish publish);
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;
  // Stops.
  ~HealthMonitor();

  // Starts the thread.
  void Start();
  // Joins the thread; publishes nothing more by itself. May be repeated.
  void Stop();

  // Calls are welcome from here on, or no longer. What follows is published
  // when they return.
  void SetStarted();
  void SetDraining();

  // Calls `observe` with the health after each look from now on, changed or
  // not, on the thread that looks; it has the duties of Publish.
  void Observe(Publish observe);

  // One look; what the thread does.
  void Look();

  // As published last.
  Health health() const;
  // OK, or UNAVAILABLE with the reason of a fatal failure.
  absl::Status failure() const;

 private:
  void Watch();
  void Look(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void PublishChange(const Health& health)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void AgeLaunch(absl::Duration passed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void LookForLayers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void LookForNames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void ProbeListeners(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);

  const HealthMonitorOptions options_;
  const HealthSources sources_;
  const Clock* const clock_;
  const Publish publish_;

  // Held for a look and what it publishes, so that these have an order.
  Mutex look_mutex_;
  HealthFacts facts_ ABSL_GUARDED_BY(look_mutex_);
  std::optional<absl::Time> last_look_ ABSL_GUARDED_BY(look_mutex_);
  std::optional<uint64_t> oldest_ ABSL_GUARDED_BY(look_mutex_);
  uint64_t progress_ ABSL_GUARDED_BY(look_mutex_) = 0;
  absl::Time next_probe_ ABSL_GUARDED_BY(look_mutex_) = absl::InfinitePast();
  bool has_layers_ ABSL_GUARDED_BY(look_mutex_);
  bool has_names_ ABSL_GUARDED_BY(look_mutex_);
  Publish observe_ ABSL_GUARDED_BY(look_mutex_);  // null: nobody

  mutable Mutex mutex_;
  CondVar stopped_;
  // As published last.
  Health health_ ABSL_GUARDED_BY(mutex_) = DecideHealth(HealthFacts());
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_HEALTH_HEALTH_MONITOR_H_
