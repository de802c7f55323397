// SPDX-License-Identifier: Apache-2.0
//
// What a load test run is told: the flags as typed, checked and turned into
// values. No flag library here; loadtest_flags.h reads the command line.

#ifndef QGEMM_LOADTEST_OPTIONS_H_
#define QGEMM_LOADTEST_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/matrix/types.h"
#include "loadtest/engine/lane_options.h"
#include "loadtest/schedule/arrival_process.h"
#include "loadtest/schedule/arrival_trace.h"
#include "loadtest/schedule/rate_profile.h"
#include "loadtest/slo.h"
#include "loadtest/sweep.h"
#include "loadtest/workload/model_shapes.h"
#include "loadtest/workload/row_mix.h"
#include "qgemm/gemm.h"

namespace qgemm {

// Most open arrivals in flight, unless --concurrency says otherwise.
inline constexpr int kOpenInFlight = 1024;

// Which answers are checked, and how thoroughly (verify/answer_checker.h).
enum class VerifyMode : uint8_t { kNone, kSample, kAll };

// What carries requests.
enum class TransportKind : uint8_t {
  kTcp,
  kUnix,
  kStream,  // either, pipelined over one GemmStream a connection
  kNull,    // nothing: every request is answered at once, empty
};

// Whether the run puts its weights on the server, and takes them away.
enum class Keep : uint8_t { kUploadAndRemove, kUpload, kRemove, kNeither };

// The command line as typed; a member a flag.
struct LoadtestFlags {
  std::string server = "127.0.0.1:50051";
  std::string transport = "auto";
  absl::Duration connect_timeout = absl::Seconds(10);
  int channels = 0;
  int threads = 0;

  std::string weights;
  std::string synthetic;
  std::string walk;
  int walk_blocks = 0;
  int layers = 1;
  std::string format = "kbit4";
  double zipf = 0;
  bool setup = true;
  bool teardown = true;

  std::string m = "1";
  int64_t prefill_m = 2048;
  int prefill_clients = 0;
  std::string dtype = "fp16";
  std::string out_dtype;
  std::string mode = "A16";
  std::string priority = "normal";
  std::string client_id;
  int inputs = 8;

  int concurrency = 0;
  absl::Duration think;
  std::string rate;
  std::string arrivals = "poisson";
  absl::Duration max_lag = absl::Milliseconds(10);
  absl::Duration duration = absl::Seconds(10);
  absl::Duration warmup = absl::Seconds(1);

  absl::Duration timeout = absl::Seconds(30);
  absl::Duration deadline;
  double cancel_rate = 0;
  absl::Duration cancel_within = absl::Milliseconds(1);
  double disconnect_rate = 0;
  std::string churn;
  double churn_rate = 1;
  std::string allow_errors;

  bool yardstick = false;
  std::string sweep;
  bool find_peak = false;
  std::string slo;
  std::string verify = "none";
  uint64_t seed = 1;

  std::string json;
  std::string hgrm;
  std::string title;
  std::string live = "auto";
};

// The layers under load: either names on the server, or synthetic ones.
struct LayerOptions {
  std::vector<std::string> names;
  // Synthetic: one a layer, in the order in which a walk calls them.
  std::vector<LayerShape> shapes;
  std::vector<std::string> formats;  // layer i has formats[i % size]
  Keep keep = Keep::kUploadAndRemove;
  bool walk = false;  // clients call the layers in order
  double zipf = 0;    // exponent; 0: layers in turn
  std::string text;   // "llama3-8b", "4096x14336"

  bool is_synthetic() const { return names.empty(); }
};

struct RequestOptions {
  RowMix m;
  int64_t prefill_m = 0;    // rows of a prefill request
  int prefill_clients = 0;  // closed loops beside the others
  FloatType a_type = FloatType::kFloat16;
  FloatType c_type = FloatType::kFloat16;
  ComputeMode mode = ComputeMode::kA16;
  RequestPriority priority = RequestPriority::kNormal;
  std::string client_id;    // how clients' ids begin; empty: none
  int inputs = 8;           // distinct activation matrices, sent in turn
  absl::Duration timeout;   // without an answer by then, an error
  absl::Duration deadline;  // which to miss is no error; infinite: none
  Disturbances disturbances;
  std::set<absl::StatusCode> allowed_errors;
};

struct ArrivalOptions {
  // Open arrivals: a rate, or a trace that may be scaled to a rate.
  std::optional<RateProfile> rate;
  std::shared_ptr<const ArrivalTrace> trace;
  ArrivalProcess process;
  double trace_scale = 1;  // of its offsets
  int concurrency = 1;     // closed: loops; open: the most in flight
  absl::Duration think;    // of closed loops
  absl::Duration max_lag;
  absl::Duration warmup;
  absl::Duration duration;

  bool is_open() const { return rate.has_value() || trace != nullptr; }
};

struct ChurnOptions {
  std::optional<LayerShape> shape;  // of the layers that come and go
  double per_second = 1;
};

struct OutputOptions {
  // Paths; empty: not written.
  std::string json;
  std::string hgrm;
  std::string title;
  bool live = false;  // a line that shows the run while it runs
};

struct LoadtestOptions {
  std::string server;
  TransportKind transport = TransportKind::kTcp;
  absl::Duration connect_timeout;
  int channels = 1;  // of all lanes together; a multiple of `lanes`
  int lanes = 1;
  LayerOptions layers;
  RequestOptions request;
  ArrivalOptions arrivals;
  ChurnOptions churn;
  bool yardstick = false;
  Sweep sweep;
  bool find_peak = false;
  Slo slo;
  VerifyMode verify = VerifyMode::kNone;
  OutputOptions output;
  uint64_t seed = 1;
};

// What ParseLoadtestOptions must be told of the machine.
struct LoadtestHost {
  int cpus = 1;
  bool terminal = false;  // standard error is one
  // Contents of a file. Errors: any, and name the path.
  absl::StatusOr<std::string> (*read_file)(const std::string& path) = nullptr;
};

// Errors: INVALID_ARGUMENT that names the flag, its value and what is legal;
// those of reading the files that --walk and --arrivals name.
absl::StatusOr<LoadtestOptions> ParseLoadtestOptions(const LoadtestFlags& flags,
                                                     const LoadtestHost& host);

// "none", "sample", "all".
absl::string_view Name(VerifyMode mode);
// "tcp", "unix", "null".
absl::string_view Name(TransportKind kind);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_OPTIONS_H_
