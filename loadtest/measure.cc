// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/process_cpu.h"
#include "base/status_macros.h"
#include "loadtest/runner.h"
#include "loadtest/server_layers.h"

namespace qgemm::loadtest {
namespace {

// Echoes and products take turns, so that both meet the machine's pace as it
// drifts; each turn has a connection of its own.
constexpr int kTurns = 5;

OpenTransport TransportsFor(const LoadtestOptions& options,
                            const MessageSet& messages) {
  TransportOptions transport;
  transport.target = options.connection.server;
  options.connection.ApplyTo(&transport.client);
  transport.channels = options.channels / options.senders;
  transport.connect_timeout = options.connect_timeout;
  transport.lane_spin = options.lane_spin;
  transport.device_operands = options.device_operands;
  transport.client_id_prefix = options.request.client_id;
  transport.parts = options.request.parts;
  transport.can_be_cut =
      options.request.disturbances.disconnects_per_second > 0;
  switch (options.transport) {
    case TransportKind::kNull:
      return NullTransports();
    case TransportKind::kLane:
      return LaneTransports(transport, &messages);
    case TransportKind::kStream:
      return StreamTransports(transport, &messages);
    default:
      return GrpcTransports(transport, &messages);
  }
}

std::vector<int64_t> ClientsFrom(int64_t first, int count) {
  std::vector<int64_t> clients;
  clients.reserve(count);
  for (int i = 0; i < count; ++i) clients.push_back(first + i);
  return clients;
}

GeneratorOptions GeneratorOptionsOf(const LoadtestOptions& options,
                                    const LoadSet& set) {
  const ArrivalOptions& arrivals = options.arrivals;
  GeneratorOptions generator;
  generator.senders = options.senders;
  if (arrivals.trace != nullptr) {
    generator.arrivals.emplace(arrivals.trace, arrivals.trace_scale);
  } else if (arrivals.rate.has_value()) {
    generator.arrivals.emplace(arrivals.process, *arrivals.rate, options.seed);
  }
  if (arrivals.is_open()) {
    generator.max_in_flight = arrivals.concurrency;
  } else {
    generator.clients = ClientsFrom(0, arrivals.concurrency);
  }
  generator.separate_clients =
      ClientsFrom(kFirstPrefillClient, options.request.prefill_clients);
  generator.think = arrivals.think;
  generator.warmup = arrivals.warmup;
  generator.duration = arrivals.duration;
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

// Echoes of the set's first message.
struct Echoes {
  explicit Echoes(const LoadSet& set) {
    const RequestPick message = set.Describe(0);
    m = set.RowsOf(message);
    const auto a =
        std::make_shared<const std::vector<uint8_t>>(set.OperandOf(message));
    bytes_out = static_cast<int64_t>(a->size());
    bytes_back = set.AnswerBytes(message);
    messages.AddEcho(a, bytes_back);
  }

  int64_t m = 0;
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
  // Echo is a call, and a product is compared with it as a call.
  options.transport = TransportKind::kCall;
  options.request.disturbances = Disturbances();
  GeneratorOptions generator;
  generator.senders = options.senders;
  generator.clients = ClientsFrom(0, options.arrivals.concurrency);
  generator.warmup = options.arrivals.warmup;
  generator.duration = options.arrivals.duration;
  generator.class_names = {"baseline"};
  generator.class_rows = {m};
  ASSIGN_OR_RETURN(RunResult result,
                   GenerateLoad(generator,
                                {TransportsFor(options, messages),
                                 [m](int64_t, int64_t) {
                                   PickedRequest only;
                                   only.rows = m;
                                   return only;
                                 },
                                 nullptr},
                                *parts.stop, nullptr));
  for (const auto& [code, tally] : result.errors) {
    return absl::Status(code == absl::StatusCode::kUnimplemented
                            ? absl::StatusCode::kFailedPrecondition
                            : code,
                        absl::StrCat("--baseline: ", tally.first_message));
  }
  return result;
}

absl::StatusOr<std::string> AnswerAlone(const LoadtestOptions& options,
                                        const RequestPick& request,
                                        const RunParts& parts) {
  const LoadSet& set = *parts.set;
  const std::vector<uint8_t> operand = set.OperandOf(request);
  const int64_t row_bytes = set.OperandRowBytes(request);
  std::string answer;
  for (int part = 0; part < set.parts(); ++part) {
    const RowRange range = RowsOfPart(set.RowsOf(request), part, set.parts());
    RunRequest run;
    run.program = set.programs()[request.layer].name;
    run.m = range.rows;
    run.inputs = {absl::MakeConstSpan(operand).subspan(range.first * row_bytes,
                                                       range.rows * row_bytes)};
    run.deadline = absl::Now() + options.request.timeout;
    ASSIGN_OR_RETURN(const qgemm::RunResult result, parts.client->Run(run));
    answer += result.outputs;
  }
  return answer;
}

}  // namespace

absl::Status AskAlone(const LoadtestOptions& options, const RunParts& parts) {
  if (parts.client == nullptr) {
    return absl::UnavailableError("the server is gone");
  }
  for (int i = 0; i < parts.set->size() && !*parts.stop; ++i) {
    ASSIGN_OR_RETURN(const std::string c,
                     AnswerAlone(options, parts.set->Describe(i), parts));
    const absl::string_view piece = c;
    EndedRequest answer;
    answer.c = absl::MakeConstSpan(&piece, 1);
    parts.observe(i, /*sequence=*/0, answer);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunResult> RunOnce(const LoadtestOptions& options,
                                  const RunParts& parts) {
  std::optional<Churn> churn;
  if (options.churn.shape.has_value()) churn.emplace(options, parts.client);
  const absl::Duration own_before = ProcessCpu();
  ASSIGN_OR_RETURN(RunResult result,
                   GenerateLoad(GeneratorOptionsOf(options, *parts.set),
                                {TransportsFor(options, parts.set->messages()),
                                 [&](int64_t client, int64_t sequence) {
                                   return parts.set->Pick(client, sequence);
                                 },
                                 parts.observe},
                                *parts.stop, parts.live));
  result.client_cpu = ProcessCpu() - own_before;
  if (churn.has_value()) churn->StopInto(&result);
  result.asked_rate = AskedRate(options.arrivals);
  result.concurrency =
      options.arrivals.concurrency + options.request.prefill_clients;
  return result;
}

absl::StatusOr<Baseline> MeasureBaseline(const LoadtestOptions& options,
                                         const RunParts& parts) {
  const Echoes echoes(*parts.set);
  const int64_t m = echoes.m;
  Baseline baseline;
  baseline.bytes_out = echoes.bytes_out;
  baseline.bytes_back = echoes.bytes_back;
  LoadtestOptions turn = options;
  turn.senders = turn.channels = turn.arrivals.concurrency = 1;
  turn.arrivals.warmup = absl::Milliseconds(50);
  turn.arrivals.duration = absl::Milliseconds(200);
  for (int i = 0; i < kTurns && !*parts.stop; ++i) {
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
  options.arrivals.warmup = absl::Milliseconds(200);
  options.arrivals.duration = absl::Seconds(1);
  ASSIGN_OR_RETURN(const RunResult result,
                   MeasureMessage(options, parts, echoes.messages, echoes.m));
  return result.answers_per_second();
}

}  // namespace qgemm::loadtest
