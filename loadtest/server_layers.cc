// SPDX-License-Identifier: Apache-2.0

#include "loadtest/server_layers.h"

#include <map>
#include <tuple>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "loadtest/walk_programs.h"

namespace qgemm::loadtest {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(10);

// Layers of one format and shape are numbered from 0.
std::vector<SyntheticLayer> NumberLayers(const LoadtestOptions& options) {
  const LayerOptions& layers = options.layers;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> counts;
  std::vector<SyntheticLayer> numbered;
  for (size_t i = 0; i < layers.shapes.size(); ++i) {
    const std::string& format = layers.formats[i % layers.formats.size()];
    const auto [k, n] = std::tie(layers.shapes[i].k, layers.shapes[i].n);
    numbered.push_back({format, k, n, options.seed, counts[{format, k, n}]++});
  }
  return numbered;
}

LoadedLayer Describe(const std::string& name, const WeightsInfo& weights) {
  return {name, weights.format, weights.k, weights.n, weights.resident_bytes};
}

}  // namespace

LayerSetup::LayerSetup(const LoadtestOptions& options)
    : options_(options), names_(options.layers.names) {
  if (!options_.layers.is_synthetic()) return;
  synthetic_ = NumberLayers(options_);
  const std::string prefix = absl::StrCat(
      "loadtest/", absl::Hex(absl::Uniform<uint64_t>(absl::BitGen())), "/");
  const bool is_private = options_.layers.setup && options_.layers.teardown;
  for (size_t i = 0; i < synthetic_.size(); ++i) {
    names_.push_back(is_private ? absl::StrCat(prefix, i)
                                : SyntheticName(synthetic_[i]));
  }
}

absl::Status LayerSetup::Upload(Client* client, int layer) {
  ASSIGN_OR_RETURN(const EncodedWeights encoded,
                   maker_.Make(synthetic_[layer]));
  LoadOptions load;
  load.name = names_[layer];
  load.deadline = absl::Now() + kCallTimeout;
  ASSIGN_OR_RETURN(const LoadResult loaded, client->LoadWeights(encoded, load));
  uploaded_ = layer + 1;
  targets_.layers.push_back(Describe(names_[layer], loaded.weights));
  return absl::OkStatus();
}

absl::Status LayerSetup::RegisterPrograms(Client* client) {
  for (const WalkProgram& each :
       ProgramsOfWalk(options_.layers.model, names_)) {
    RegisterOptions registration;
    // Programs' names are apart from those of weights.
    registration.name = each.first_weights;
    registration.deadline = absl::Now() + kCallTimeout;
    RETURN_IF_ERROR(
        client->RegisterProgram(each.program, registration).status());
    targets_.programs.push_back(
        {registration.name, each.input_row_elements, each.output_row_bytes});
  }
  return absl::OkStatus();
}

absl::Status LayerSetup::Prepare(
    Client* client, const std::atomic<bool>& stop,
    const std::function<void(int done, int all)>& progress) {
  const bool upload = options_.layers.is_synthetic() && options_.layers.setup;
  const int count = static_cast<int>(names_.size());
  for (int i = 0; i < count; ++i) {
    if (stop.load()) return absl::CancelledError("stopped by a signal");
    if (upload) {
      RETURN_IF_ERROR(Upload(client, i));
    } else {
      ASSIGN_OR_RETURN(
          const WeightsInfo weights,
          client->GetWeights(names_[i], absl::Now() + kCallTimeout));
      targets_.layers.push_back(Describe(names_[i], weights));
    }
    if (progress) progress(i + 1, count);
  }
  return options_.layers.has_programs() ? RegisterPrograms(client)
                                        : absl::OkStatus();
}

absl::Status LayerSetup::TearDown(Client* client) {
  if (!options_.layers.is_synthetic() || !options_.layers.teardown) {
    return absl::OkStatus();
  }
  if (client == nullptr) {
    return absl::UnavailableError("there is no server to remove layers from");
  }
  absl::Status first;
  const auto removed = [&first](const std::string& name,
                                const absl::Status& status) {
    if (status.ok()) return;
    first.Update(absl::Status(
        status.code(),
        absl::StrCat(name, " is still there: ", status.message())));
  };
  for (const LoadedProgram& each : targets_.programs) {
    removed(
        absl::StrCat("program ", each.name),
        client->UnloadProgram(each.name, absl::Now() + kCallTimeout).status());
  }
  const int count =
      options_.layers.setup ? uploaded_ : static_cast<int>(names_.size());
  for (int i = 0; i < count; ++i) {
    removed(
        names_[i],
        client->UnloadWeights(names_[i], absl::Now() + kCallTimeout).status());
  }
  return first;
}

absl::StatusOr<CanonicalWeights> LayerSetup::Canonical(int layer) {
  if (!options_.layers.is_synthetic()) {
    return absl::FailedPreconditionError(
        "the contents of named weights are not known here");
  }
  ASSIGN_OR_RETURN(const EncodedWeights encoded,
                   maker_.Make(synthetic_[layer]));
  return DecodeWeights(encoded);
}

Churn::Churn(const LoadtestOptions& options, Client* client)
    : options_(options),
      client_(client),
      prefix_(absl::StrCat("loadtest/churn/",
                           absl::Hex(absl::Uniform<uint64_t>(absl::BitGen())),
                           "/")),
      thread_([this] { Run(); }) {}

Churn::~Churn() {
  if (thread_.joinable()) Join();
}

void Churn::Join() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void Churn::Run() {
  const absl::Time start = absl::Now();
  const absl::Duration gap = absl::Seconds(1 / options_.churn.per_second);
  for (int64_t i = 0; WaitUntil(start + gap * i); ++i) Upload(i);
  UnloadResident();
}

void Churn::UnloadResident() {
  if (resident_.empty()) return;
  Succeeded(
      client_->UnloadWeights(resident_, absl::Now() + kCallTimeout).status());
}

bool Churn::WaitUntil(absl::Time time) {
  MutexLock lock(&mutex_);
  while (!stopped_ && absl::Now() < time) {
    changed_.WaitFor(&mutex_, time - absl::Now());
  }
  return !stopped_;
}

void Churn::Upload(int64_t number) {
  LoadOptions load;
  load.name = absl::StrCat(prefix_, number);
  load.deadline = absl::Now() + kCallTimeout;
  const LayerShape& shape = *options_.churn.shape;
  // The seed differs from that of the layers under load, which stay.
  const absl::StatusOr<EncodedWeights> layer =
      maker_.Make({options_.layers.formats.front(), shape.k, shape.n,
                   ~options_.seed, number});
  if (!Succeeded(layer.status()) ||
      !Succeeded(client_->LoadWeights(*layer, load).status())) {
    return;
  }
  ++uploads_;
  UnloadResident();
  resident_ = load.name;
}

bool Churn::Succeeded(const absl::Status& status) {
  if (status.ok()) return true;
  CountError(
      absl::Status(status.code(), absl::StrCat("churn: ", status.message())),
      std::nullopt, &errors_);
  return false;
}

void Churn::StopInto(RunResult* result) {
  Join();
  result->uploads = uploads_;
  MergeErrors(errors_, &result->errors);
}

}  // namespace qgemm::loadtest
