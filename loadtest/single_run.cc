// SPDX-License-Identifier: Apache-2.0

#include "loadtest/single_run.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "loadtest/churn.h"
#include "loadtest/engine/grpc_transport.h"
#include "loadtest/engine/null_transport.h"
#include "loadtest/engine/stream_transport.h"

namespace qgemm {
namespace {

// Of echoes and products in turn, so that both meet the machine's pace as it
// drifts; each time over a connection of its own.
constexpr int kBaselineTurns = 5;
constexpr absl::Duration kBaselineTurn = absl::Milliseconds(200);
constexpr absl::Duration kBaselineTurnWarmup = absl::Milliseconds(50);
constexpr absl::Duration kEchoRateTime = absl::Seconds(1);
constexpr absl::Duration kEchoRateWarmup = absl::Milliseconds(200);
// The server's limit is the one that counts; this only is above it.
constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;

std::unique_ptr<TransportFactory> FactoryFor(const LoadtestOptions& options,
                                             const MessageSet& messages) {
  if (options.transport == TransportKind::kNull) {
    return std::make_unique<NullTransportFactory>();
  }
  if (options.transport == TransportKind::kStream) {
    StreamTransportOptions stream;
    stream.target = options.server;
    stream.channels = options.channels / options.lanes;
    stream.max_message_bytes = kMaxMessageBytes;
    stream.connect_timeout = options.connect_timeout;
    return std::make_unique<StreamTransportFactory>(stream, &messages);
  }
  GrpcTransportOptions grpc;
  grpc.target = options.server;
  grpc.channels = options.channels / options.lanes;
  grpc.max_message_bytes = kMaxMessageBytes;
  grpc.connect_timeout = options.connect_timeout;
  grpc.client_id_prefix = options.request.client_id;
  if (options.request.disturbances.disconnects_per_second > 0) {
    grpc.connections = Connections::kCuttable;
  }
  return std::make_unique<GrpcTransportFactory>(grpc, &messages);
}

std::optional<ArrivalSequence> SequenceOf(const LoadtestOptions& options) {
  const ArrivalOptions& arrivals = options.arrivals;
  if (arrivals.trace != nullptr) {
    return ArrivalSequence(arrivals.trace, arrivals.trace_scale);
  }
  if (!arrivals.rate.has_value()) return std::nullopt;
  return ArrivalSequence(arrivals.process, *arrivals.rate, options.seed);
}

GeneratorOptions GeneratorOptionsOf(const LoadtestOptions& options,
                                    const LoadSet& set) {
  GeneratorOptions generator;
  generator.lanes = options.lanes;
  if (const auto sequence = SequenceOf(options)) {
    generator.arrivals.emplace(*sequence);
  }
  if (options.arrivals.is_open()) {
    generator.max_in_flight = options.arrivals.concurrency;
  } else {
    for (int i = 0; i < options.arrivals.concurrency; ++i) {
      generator.clients.push_back({i});
    }
  }
  for (int i = 0; i < options.request.prefill_clients; ++i) {
    generator.clients_apart.push_back({kFirstPrefillClient + i});
  }
  generator.think = options.arrivals.think;
  generator.warmup = options.arrivals.warmup;
  generator.duration = options.arrivals.duration;
  generator.timeout = options.request.timeout;
  generator.deadline = options.request.deadline;
  generator.disturbances = options.request.disturbances;
  generator.class_names = set.class_names();
  generator.class_rows = set.class_rows();
  generator.seed = options.seed;
  return generator;
}

double AskedRate(const ArrivalOptions& arrivals) {
  if (arrivals.trace != nullptr) {
    return arrivals.trace->mean_rate() / arrivals.trace_scale;
  }
  if (!arrivals.rate.has_value()) return 0;
  return arrivals.rate->MeanRate(arrivals.warmup,
                                 arrivals.warmup + arrivals.duration);
}

// A request picker with one message.
class OneMessage final : public RequestPicker {
 public:
  explicit OneMessage(int64_t rows) { picked_.rows = rows; }
  PickedRequest Pick(int64_t, int64_t) const override { return picked_; }

 private:
  PickedRequest picked_;
};

// `options`, but one client over a connection of its own, for one turn.
LoadtestOptions OneTurn(LoadtestOptions options) {
  options.lanes = options.channels = options.arrivals.concurrency = 1;
  options.arrivals.warmup = kBaselineTurnWarmup;
  options.arrivals.duration = kBaselineTurn;
  return options;
}

// Echoes of the set's first message.
struct Echoes {
  explicit Echoes(const LoadSet& set) : message(set.Describe(0)) {
    const std::vector<uint8_t> a = set.OperandOf(message);
    bytes_out = static_cast<int64_t>(a.size());
    bytes_back = set.AnswerBytes(message);
    messages.AddEcho(messages.AddOperand(a), bytes_back);
  }

  LoadMessage message;
  int64_t bytes_out = 0;
  int64_t bytes_back = 0;
  MessageSet messages;
};

// Closed loops that send the only message of a set, as long as options.arrivals
// says.
absl::StatusOr<RunResult> MeasureMessage(LoadtestOptions options,
                                         const RunParts& parts,
                                         const MessageSet& messages,
                                         int64_t m) {
  // Echo is a call, and so is what it is compared with.
  options.transport = TransportKind::kTcp;
  options.request.disturbances = Disturbances();
  GeneratorOptions generator;
  generator.lanes = options.lanes;
  for (int i = 0; i < options.arrivals.concurrency; ++i) {
    generator.clients.push_back({i});
  }
  generator.warmup = options.arrivals.warmup;
  generator.duration = options.arrivals.duration;
  generator.class_names = {"baseline"};
  generator.class_rows = {m};
  const OneMessage picker(m);
  const SteadyClock clock;
  const std::unique_ptr<TransportFactory> factory =
      FactoryFor(options, messages);
  ASSIGN_OR_RETURN(
      RunResult result,
      GenerateLoad(generator, {factory.get(), &picker, nullptr, &clock},
                   *parts.stop, nullptr));
  for (const auto& [code, tally] : result.errors) {
    return absl::Status(code == absl::StatusCode::kUnimplemented
                            ? absl::StatusCode::kFailedPrecondition
                            : code,
                        absl::StrCat("--yardstick: ", tally.first_message));
  }
  return result;
}

}  // namespace

absl::StatusOr<RunResult> RunOnce(const LoadtestOptions& options,
                                  const RunParts& parts) {
  const std::unique_ptr<TransportFactory> factory =
      FactoryFor(options, parts.set->messages());
  std::unique_ptr<Churn> churn;
  if (options.churn.shape.has_value()) {
    ASSIGN_OR_RETURN(churn, Churn::Start(options, parts.client));
  }
  const absl::Duration own_before = ProcessCpu();
  const SteadyClock clock;
  ASSIGN_OR_RETURN(
      RunResult result,
      GenerateLoad(GeneratorOptionsOf(options, *parts.set),
                   {factory.get(), parts.set, parts.observer, &clock},
                   *parts.stop, parts.live));
  result.client_cpu = ProcessCpu() - own_before;
  if (churn != nullptr) churn->StopInto(&result);
  result.asked_rate = AskedRate(options.arrivals);
  result.concurrency =
      options.arrivals.concurrency + options.request.prefill_clients;
  return result;
}

absl::StatusOr<Baseline> MeasureBaseline(const LoadtestOptions& options,
                                         const RunParts& parts) {
  const Echoes echoes(*parts.set);
  const int64_t m = echoes.message.m;
  Baseline baseline;
  baseline.bytes_out = echoes.bytes_out;
  baseline.bytes_back = echoes.bytes_back;
  const LoadtestOptions turn = OneTurn(options);
  for (int i = 0; i < kBaselineTurns && !*parts.stop; ++i) {
    ASSIGN_OR_RETURN(const RunResult echo,
                     MeasureMessage(turn, parts, echoes.messages, m));
    ASSIGN_OR_RETURN(const RunResult gemm,
                     MeasureMessage(turn, parts, parts.set->messages(), m));
    baseline.echo_ns.Merge(echo.send_latency_ns());
    baseline.gemm_ns.Merge(gemm.send_latency_ns());
    baseline.device_ns.Merge(gemm.server.device_ns);
  }
  return baseline;
}

absl::StatusOr<double> MeasureEchoRate(LoadtestOptions options,
                                       const RunParts& parts) {
  const Echoes echoes(*parts.set);
  options.arrivals.warmup = kEchoRateWarmup;
  options.arrivals.duration = kEchoRateTime;
  ASSIGN_OR_RETURN(
      const RunResult result,
      MeasureMessage(options, parts, echoes.messages, echoes.message.m));
  return result.answers_per_second();
}

}  // namespace qgemm
