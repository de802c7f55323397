// SPDX-License-Identifier: Apache-2.0
//
// The composition root: makes every part of the server, hands each what it
// depends on, and takes them down in order.

#ifndef QGEMM_SERVER_SERVER_H_
#define QGEMM_SERVER_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "server/rpc/stream_ledger.h"
#include "server/scheduling/batch_scheduler.h"

namespace qgemm {

struct ServerOptions {
  // Each "host:port" (loopback; port 0 = a free one) or "unix:path"; at least
  // one.
  std::vector<std::string> listen;
  std::string metrics_listen;  // "host:port", or empty for none

  std::string backend = "auto";
  int threads = 0;  // of the CPU backend; 0 = one a core
  // Of the CUDA backend.
  std::string kernel = "auto";  // or "small", "wide" or "large"
  // Who moves rows to and from a GPU: "auto", or "copy_engines" for comparison.
  std::string row_moves = "auto";
  std::string tuning_file;  // empty = built-in thresholds

  int64_t weights_budget_bytes = 0;  // 0 = no budget
  int64_t max_message_bytes = int64_t{64} << 20;
  WeightsLimits weights_limits;
  int max_uploads = 4;
  StreamLimits stream;  // of each GemmStream
  SchedulerOptions scheduler;
  // Requests of any clients for the same weights share a launch while others
  // are in flight; scheduler.batching is set by this and the backend's limits.
  bool batching = true;

  // RPCs for tests and measurements (proto/qgemm/v1/debug.proto).
  bool enable_echo = false;
  bool enable_freeze = false;
};

// Thread-safe.
class Server {
 public:
  // Listens and serves when it returns.
  // Errors: INVALID_ARGUMENT (an option, by its flag's name), NOT_FOUND (a
  // tuning file that is not there), FAILED_PRECONDITION (not a loopback
  // address; an address that is in use; a backend that is not there).
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options);

  // The same with a backend that is made already.
  static absl::StatusOr<std::unique_ptr<Server>> Create(
      const ServerOptions& options, std::unique_ptr<Backend> backend);

  virtual ~Server() = default;

  // The addresses listened at, in the options' order, with their real ports.
  virtual const std::vector<std::string>& addresses() const = 0;
  // The ports of the TCP ones, in order.
  virtual const std::vector<int>& ports() const = 0;
  // 0 without a metrics endpoint.
  virtual int metrics_port() const = 0;

  // Health says NOT_SERVING, new calls and uploads in progress are refused
  // with UNAVAILABLE, accepted requests are answered until `deadline` and
  // refused with UNAVAILABLE then. Returns when all calls have ended. The
  // destructor drains with a deadline of now.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SERVER_H_
