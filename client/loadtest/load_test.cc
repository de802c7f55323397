// SPDX-License-Identifier: Apache-2.0
//
// The steps of a load test, in order.

#include "client/loadtest/load_test.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "client/loadtest/answer_checker.h"
#include "client/loadtest/client_target.h"
#include "client/loadtest/closed_loop_runner.h"
#include "client/loadtest/random_operands.h"

namespace qgemm {
namespace {

// The server's limit is the one that counts; this only is above it.
constexpr int64_t kMaxMessageBytes = int64_t{1} << 30;
// What inputs and kept answers may take together.
constexpr int64_t kMaxOperandBytes = int64_t{256} << 20;

using Inputs = std::vector<std::vector<uint8_t>>;

absl::StatusOr<std::unique_ptr<Client>> ConnectFor(
    const LoadtestOptions& options) {
  ClientOptions client;
  client.channels = options.connections;
  client.completion_threads = std::min(options.concurrency, 2);
  client.max_message_bytes = kMaxMessageBytes;
  client.retry.max_attempts = 1;  // every refusal is counted
  return Client::Connect(options.server, client);
}

// The layer under load, and its canonical form where it is known.
struct Layer {
  WeightsDescription description;
  std::string name;  // what requests call it
  std::optional<CanonicalWeights> canonical;
};

absl::StatusOr<Layer> UploadSynthetic(const LoadtestOptions& options,
                                      Client* client) {
  ASSIGN_OR_RETURN(
      const EncodedWeights encoded,
      MakeRandomWeights(options.format, options.synthetic, options.seed));
  Layer layer;
  // Drawn anew, so that load tests at the same server do not share the name.
  absl::BitGen random;
  layer.name =
      absl::StrCat("loadtest/", absl::Hex(absl::Uniform<uint64_t>(random)));
  LoadOptions load;
  load.name = layer.name;
  ASSIGN_OR_RETURN(const LoadResult loaded, client->LoadWeights(encoded, load));
  layer.description = loaded.weights;
  if (options.verify != VerifyMode::kNone) {
    ASSIGN_OR_RETURN(layer.canonical, DecodeWeights(encoded));
  }
  return layer;
}

absl::StatusOr<Layer> FindNamed(const LoadtestOptions& options,
                                Client* client) {
  Layer layer;
  layer.name = options.weights;
  ASSIGN_OR_RETURN(layer.description, client->Describe(options.weights));
  return layer;
}

// Bytes of one input with its answer; saturates.
int64_t OperandBytes(const LoadtestOptions& options,
                     const WeightsDescription& weights) {
  const int64_t row =
      weights.k * SizeOf(options.a_type) + weights.n * SizeOf(options.c_type);
  return CheckedMul(options.m, row).value_or(kMaxOperandBytes);
}

absl::StatusOr<Inputs> MakeInputs(const LoadtestOptions& options,
                                  const WeightsDescription& weights) {
  const int64_t bytes = OperandBytes(options, weights);
  if (bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--m=", options.m, ": a request and its answer take ",
                     bytes, " bytes, must be at most ", kMaxMessageBytes));
  }
  const int64_t count =
      std::clamp<int64_t>(kMaxOperandBytes / bytes, 1, options.inputs);
  Inputs inputs;
  for (int64_t i = 0; i < count; ++i) {
    inputs.push_back(MakeRandomActivations(
        options.a_type, options.m * weights.k, options.seed + 1 + i));
  }
  return inputs;
}

MatmulSignature SignatureOf(const LoadtestOptions& options) {
  MatmulSignature signature;
  signature.a_type = options.a_type;
  signature.c_type = options.c_type;
  signature.mode = options.mode;
  return signature;
}

LoopResult RunLoop(const LoadtestOptions& options, LoadTarget* target,
                   int64_t inputs, AnswerChecker* checker,
                   const std::atomic<bool>& stop) {
  ClosedLoopOptions loop;
  loop.concurrency = options.concurrency;
  loop.inputs = inputs;
  loop.warmup = options.warmup;
  loop.duration = options.duration;
  return RunClosedLoop(loop, target, checker, SteadyClock(), stop);
}

}  // namespace

absl::StatusOr<LoadtestReport> RunLoadTest(const LoadtestOptions& options,
                                           const std::atomic<bool>& stop) {
  LoadtestReport report;
  report.options = options;
  report.started_at = absl::Now();
  report.client_cpus = static_cast<int>(std::thread::hardware_concurrency());
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectFor(options));
  ASSIGN_OR_RETURN(report.server, client->ServerInfo());
  ASSIGN_OR_RETURN(const Layer layer,
                   options.is_synthetic()
                       ? UploadSynthetic(options, client.get())
                       : FindNamed(options, client.get()));
  report.weights = layer.description;
  const absl::StatusOr<Inputs> inputs = MakeInputs(options, layer.description);
  AnswerChecker checker(options.verify, inputs.ok() ? inputs->size() : 0);
  if (inputs.ok()) {
    ClientTarget target(client.get(),
                        {layer.name, options.m, SignatureOf(options),
                         options.timeout, *inputs});
    report.loop = RunLoop(options, &target, inputs->size(), &checker, stop);
  }
  if (options.is_synthetic()) {
    report.cleanup =
        client->Unload(layer.name, absl::Now() + options.timeout).status();
  }
  RETURN_IF_ERROR(inputs.status());
  report.options.inputs = static_cast<int>(inputs->size());
  report.verify =
      layer.canonical.has_value()
          ? checker.CompareWithFp64({*layer.canonical, SignatureOf(options),
                                     options.m, *inputs, options.seed})
          : checker.CompareBits();
  return report;
}

}  // namespace qgemm
