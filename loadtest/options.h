// SPDX-License-Identifier: Apache-2.0
//
// Options of a load test: the command line's values with their defaults,
// checked and completed.

#ifndef QGEMM_LOADTEST_OPTIONS_H_
#define QGEMM_LOADTEST_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/flags/connection_flags.h"
#include "kernels/matrix/types.h"
#include "loadtest/engine/load_generator.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/schedule/arrivals.h"
#include "loadtest/search.h"
#include "loadtest/verify/verify.h"
#include "loadtest/workload/model.h"
#include "loadtest/workload/workload.h"
#include "qgemm/gemm.h"

namespace qgemm::loadtest {

// Most open arrivals in flight, unless --concurrency says otherwise.
inline constexpr int kOpenInFlight = 1024;
// Most closed loops, or open arrivals in flight.
inline constexpr int kMaxConcurrency = 1 << 16;

enum class TransportKind : uint8_t {
  kCall,    // a call a request, over TCP or a Unix socket as --server says
  kStream,  // pipelined over one GemmStream a connection
  kLane,    // by memory that server and load test share
  kNull,    // no server: every request is answered at once, empty
};

// The layers under load: either names on the server, or synthetic ones.
struct LayerOptions {
  std::vector<std::string> names;                // --weights
  std::vector<std::string> synthetic;            // shapes as typed
  std::string walk;                              // a model or a file
  std::string program_walk;                      // the same, by programs
  int walk_blocks = 0;                           // at most; 0: all
  int per_shape = 1;                             // of --synthetic
  std::vector<std::string> formats = {"kbit4"};  // layer i has [i % size]
  double zipf = 0;                               // exponent; 0: layers in turn
  bool setup = true;                             // upload synthetic layers
  bool teardown = true;                          // remove them at the end
  // Synthetic: one a layer, in the order in which a walk calls them; those of
  // WalkLayers for a walk by programs.
  std::vector<LayerShape> shapes;
  ModelShape model;  // of program_walk

  bool is_synthetic() const { return names.empty(); }
  bool has_programs() const { return !program_walk.empty(); }
  bool is_walk() const { return !walk.empty() || has_programs(); }
  // "llama3-8b", "4096x14336"
  std::string text() const;
};

struct RequestOptions {
  RowMix m;
  int64_t prefill_m = 2048;  // rows of a prefill request
  int prefill_clients = 0;   // closed loops beside the others
  int parts = 1;             // of a request's rows, in flight together
  FloatType a_type = FloatType::kFloat16;
  std::optional<FloatType> c_type;  // a_type if unset
  ComputeMode mode = ComputeMode::kA16;
  RequestPriority priority = RequestPriority::kNormal;
  std::string client_id;  // first part of the clients' ids; empty: none
  int inputs = 8;         // distinct activation matrices, sent in turn
  // A request without an answer after this is an error.
  absl::Duration timeout = absl::Seconds(30);
  absl::Duration deadline;  // a miss is no error; zero: none
  Disturbances disturbances;
  std::set<absl::StatusCode> allowed_errors;

  FloatType result_type() const { return c_type.value_or(a_type); }
};

struct ArrivalOptions {
  std::string rate_text;
  ArrivalProcess process;
  int concurrency = 0;   // closed: loops; open: the most in flight
  absl::Duration think;  // of closed loops
  absl::Duration max_lag = absl::Milliseconds(10);
  absl::Duration warmup = absl::Seconds(1);
  absl::Duration duration = absl::Seconds(10);
  // Open arrivals: a rate, or a trace that may be scaled to a rate.
  std::optional<RateProfile> rate;
  std::shared_ptr<const ArrivalTrace> trace;
  double trace_scale = 1;  // of its offsets

  bool is_open() const { return rate.has_value() || trace != nullptr; }
};

struct ChurnOptions {
  std::optional<LayerShape> shape;  // of the layers that come and go
  double per_second = 1;
};

struct OutputOptions {
  std::string json;  // a path; empty: not written
  std::string title;
  std::optional<bool> live;  // unset: on a terminal
};

struct LoadtestOptions {
  ConnectionFlags connection;
  TransportKind transport = TransportKind::kCall;
  absl::Duration connect_timeout = absl::Seconds(10);
  // To each server, of all senders together; a multiple of them.
  int channels = 0;
  int senders = 0;
  // Answers of a GPU take longer than a client's default.
  absl::Duration lane_spin = absl::Microseconds(50);
  bool device_operands = false;  // of a lane
  LayerOptions layers;
  RequestOptions request;
  ArrivalOptions arrivals;
  ChurnOptions churn;
  bool baseline = false;
  Sweep sweep;
  bool find_peak = false;
  Slo slo;
  VerifyMode verify = VerifyMode::kNone;
  uint64_t seed = 1;
  OutputOptions output;
};

// The command line of qgemm_loadtest; parsing overwrites `options`, which must
// outlive it, with values checked one by one.
std::unique_ptr<CLI::App> MakeLoadtestApp(LoadtestOptions* options);

// Checks parsed options against each other and sets those that are automatic,
// for a machine of so many processors.
// Errors: INVALID_ARGUMENT that names the flag, its value and what is allowed;
// those of reading the files that --walk and --arrivals name.
absl::Status CompleteOptions(int cpus, LoadtestOptions* options);

// The options of one point of a sweep, or at a rate of a search.
// Errors: INVALID_ARGUMENT (a value that the flag does not take).
absl::StatusOr<LoadtestOptions> SweepPoint(const LoadtestOptions& options,
                                           size_t point);
LoadtestOptions AtRate(LoadtestOptions options, RateProfile rate);

// Fills in options and changed_options: each flag with its value in effect, in
// alphabetical order.
void DescribeFlags(const CLI::App& app, LoadtestReport* report);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_OPTIONS_H_
