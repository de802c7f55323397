// SPDX-License-Identifier: Apache-2.0
//
// Composition root: makes every part of the server, passes each its
// dependencies, and drains and destroys them in order.

#ifndef QGEMM_SERVER_SERVER_H_
#define QGEMM_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/matrix/backend.h"
#include "server/health/health.h"
#include "server/keep/descriptor_holder.h"
#include "server/server_options.h"

namespace qgemm {

// Thread-safe.
class Server {
 public:
  // Returns a server that listens and serves.
  // Errors: INVALID_ARGUMENT (an option, by its flag's name), NOT_FOUND (no
  // such tuning file), FAILED_PRECONDITION (not a loopback address; an address
  // in use; a backend that this build or host lacks).
  // `holder` is that of --keep_memory, and null without it.
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options,
      std::unique_ptr<DescriptorHolder> holder = nullptr);

  // The same on an existing backend; options.backend is ignored.
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options, std::unique_ptr<Backend> backend,
      std::unique_ptr<DescriptorHolder> holder = nullptr);

  virtual ~Server() = default;

  virtual BackendDescription backend() const = 0;

  // Addresses it listens at, in the options' order, with their actual ports.
  virtual const std::vector<std::string>& addresses() const = 0;
  // Ports of the TCP addresses, in order.
  virtual const std::vector<int>& ports() const = 0;
  // Port of the metrics endpoint; 0 without one.
  virtual int metrics_port() const = 0;

  // Turns health to NOT_SERVING for good, and serves on: balancers send their
  // calls elsewhere before a drain refuses them.
  virtual void AnnounceDrain() = 0;

  // Turns health to NOT_SERVING, refuses new calls and uploads in progress with
  // UNAVAILABLE, answers accepted requests until `deadline`, and refuses with
  // UNAVAILABLE those that still wait then, and soon after those of a launch
  // that has not ended. Returns when all calls have ended.
  // The destructor drains with a deadline of now.
  virtual void Drain(absl::Time deadline) = 0;

  // OK; or UNAVAILABLE, for good, with the reason why the server cannot compute
  // any more: its device is lost, or a launch hangs. Every call ends with
  // UNAVAILABLE then. To destroy such a server may block for ever: the process
  // ends by _exit, after a drain.
  virtual absl::Status failure() const = 0;
  // Runs `notify` once, on any thread, when failure() is an error.
  virtual void NotifyOfFailure(absl::AnyInvocable<void()> notify) = 0;

  // Calls `observe` with the health ten times a second and when it changes, on
  // any thread, until the end of Drain; not while what watches the health
  // hangs. It must neither call the server nor wait.
  virtual void ObserveHealth(std::function<void(const Health&)> observe) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SERVER_H_
