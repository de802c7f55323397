// SPDX-License-Identifier: Apache-2.0

#include "loadtest/churn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::unique_ptr<Churn>> Churn::Start(
    const LoadtestOptions& options, Client* client) {
  SyntheticLayers maker;
  RETURN_IF_ERROR(maker.Make(LayerOf(options, 0)).status());
  return std::unique_ptr<Churn>(new Churn(options, client, std::move(maker)));
}

Churn::Churn(const LoadtestOptions& options, Client* client,
             SyntheticLayers maker)
    : options_(options),
      client_(client),
      maker_(std::move(maker)),
      prefix_(absl::StrCat("loadtest/churn/",
                           absl::Hex(absl::Uniform<uint64_t>(absl::BitGen())),
                           "/")),
      thread_([this] { Run(); }) {}

// The seed is not that of the layers under load, which stay.
SyntheticLayer Churn::LayerOf(const LoadtestOptions& options, int64_t turn) {
  const LayerShape& shape = *options.churn.shape;
  SyntheticLayer layer;
  layer.format = options.layers.formats.front();
  layer.shape = {shape.k, shape.n};
  layer.seed = ~options.seed;
  layer.index = turn;
  return layer;
}

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
  for (int64_t turn = 0; AwaitTurn(start + gap * turn); ++turn) Turn(turn);
  if (!resident_.empty()) {
    Note(
        client_->UnloadWeights(resident_, absl::Now() + kCallTimeout).status());
  }
}

bool Churn::AwaitTurn(absl::Time time) {
  MutexLock lock(&mutex_);
  while (!stopped_ && absl::Now() < time) {
    changed_.WaitFor(&mutex_, time - absl::Now());
  }
  return !stopped_;
}

void Churn::Turn(int64_t number) {
  LoadOptions load;
  load.name = absl::StrCat(prefix_, number);
  load.deadline = absl::Now() + kCallTimeout;
  const absl::StatusOr<EncodedWeights> layer =
      maker_.Make(LayerOf(options_, number));
  Note(layer.status());
  if (!layer.ok()) return;
  const absl::Status loaded = client_->LoadWeights(*layer, load).status();
  Note(loaded);
  if (!loaded.ok()) return;
  ++uploads_;
  if (!resident_.empty()) {
    Note(
        client_->UnloadWeights(resident_, absl::Now() + kCallTimeout).status());
  }
  resident_ = load.name;
}

void Churn::Note(const absl::Status& status) {
  if (status.ok()) return;
  ErrorTally& tally = errors_[status.code()];
  if (tally.count++ == 0) {
    tally.first_message = absl::StrCat("churn: ", status.message());
  }
}

void Churn::StopInto(RunResult* result) {
  Join();
  result->uploads = uploads_;
  for (const auto& [code, tally] : errors_) {
    ErrorTally& sum = result->errors[code];
    if (sum.count == 0) sum.first_message = tally.first_message;
    sum.count += tally.count;
  }
}

}  // namespace qgemm
