// SPDX-License-Identifier: Apache-2.0
//
// Settings of qgemm_server: the one home of their defaults, their flags and
// their bounds (docs/operations.md).

#ifndef QGEMM_SERVER_SERVER_OPTIONS_H_
#define QGEMM_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "kernels/backends/backends.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/matrix/backend.h"
#include "rpc/message_limits.h"
#include "server/lane/lane_quota.h"
#include "server/net/connection_table.h"
#include "server/net/grpc_settings.h"
#include "server/rpc/stream_ledger.h"
#include "server/scheduling/launch_planner.h"
#include "server/tls/certificate_set.h"
#include "server/weights/eviction.h"

namespace CLI {
class App;
}  // namespace CLI

namespace qgemm {

// Layers of the state directory that must be in memory before health says
// SERVING.
enum class ReadyWhen : uint8_t { kAll, kPinned, kNone };

struct ServerOptions {
  // Each "host:port" (loopback; port 0 = a free one), "tls:host:port" or
  // "unix:path"; at least one.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  std::string socket_mode;     // of Unix sockets, octal; empty = by the umask
  std::string socket_group;    // name or number; empty = the process's
  std::string port_file;       // written by main.cc; empty = none
  std::string metrics_listen;  // "host:port"; empty = none
  std::string lane_listen;     // "unix:path"; empty = none
  std::string access_table;    // file (docs/access.md); empty = none
  CertificatePaths tls;        // of "tls:" addresses

  ConnectionLimits connections;
  LaneLimits lanes;
  bool allow_device_operands = false;  // lanes take memory of clients' GPUs
  // The time after the last request for which lanes are polled.
  absl::Duration lane_spin = absl::Microseconds(50);
  GrpcSettings grpc;

  BackendOptions backend;

  int64_t weights_budget_bytes = 0;  // 0 = by the backend's device
  // For operands and answers. 0 = by the memory that the process may take.
  int64_t max_staging_bytes = 0;
  int64_t max_message_bytes = kDefaultMaxMessageBytes;
  WeightsLimits weights_limits;
  int max_uploads = 4;
  // Time for which an upload that was cut off can be continued; 0 = none can.
  absl::Duration upload_linger = absl::Minutes(2);
  int64_t max_layers = 65536;
  int64_t max_names = 131072;
  int64_t max_programs = 4096;
  int64_t max_program_names = 16384;
  StreamLimits stream;  // of each GemmStream
  int max_streams = 2048;
  // Operands of one client's requests and unread answers; 0 = half of the
  // staging bound.
  int64_t max_client_staging_bytes = 0;
  // Least progress of uploads, operands in part and answers.
  absl::Duration idle_timeout = absl::Seconds(30);
  int64_t min_upload_bytes_per_second = int64_t{64} << 10;
  // scheduler.batching is derived from `batching` and the backend's limits.
  SchedulerOptions scheduler;
  // True: requests of any clients for the same weights share launches.
  bool batching = true;

  // RPCs for tests and measurements (proto/qgemm/v1/debug.proto).
  bool enable_echo = false;
  bool enable_freeze = false;
  bool enable_faults = false;

  std::string state_dir;          // folder; empty = nothing outlives the server
  int64_t state_bytes = 0;        // of the layers' files; 0 = no bound
  int64_t state_image_bytes = 0;  // of their images; 0 = none
  // Names whose layers are read first at the start, and stay in memory.
  std::vector<std::string> pin_names;
  EvictionRule eviction;
  ReadyWhen ready = ReadyWhen::kAll;
  // Holder of the layers' memory while no server runs: "systemd", or the path
  // of qgemm_holder's socket; empty = memory goes with the server.
  std::string keep_memory;

  // A launch that takes longer hangs: the server has failed. 0 = no watchdog.
  absl::Duration launch_timeout = absl::Seconds(30);
  // Used by main.cc.
  bool exit_on_gpu_failure = true;
  // Health says NOT_SERVING until weights or programs have had all of these.
  std::vector<std::string> ready_names;
  absl::Duration drain_delay;  // health says NOT_SERVING before the drain
  absl::Duration drain_timeout = absl::Seconds(30);

  // Gemm requests that take as long are logged; 0 = none.
  absl::Duration slow_request = absl::Seconds(1);
  LogFormat log_format = LogFormat::kText;  // used by main.cc
};

// Returns the command line of qgemm_server, which writes to `options`. The
// options must outlive it.
std::unique_ptr<CLI::App> MakeServerApp(ServerOptions* options);

// Returns OK, or INVALID_ARGUMENT with the flag's name, its value and its
// bounds. Addresses and the backend's options are checked by their users.
absl::Status Validate(const ServerOptions& options);

}  // namespace qgemm

#endif  // QGEMM_SERVER_SERVER_OPTIONS_H_
