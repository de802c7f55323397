// SPDX-License-Identifier: Apache-2.0

#include "loadtest/load_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "loadtest/engine/transport.h"
#include "loadtest/workload/synthetic_layers.h"
#include "loadtest/workload/workload.h"

namespace qgemm::loadtest {
namespace {

// Bound on the activations of all messages together.
constexpr int64_t kMaxOperandBytes = int64_t{256} << 20;

WorkloadOptions WorkloadOf(const LoadtestOptions& options, size_t layers) {
  WorkloadOptions workload;
  workload.layers = static_cast<int>(layers);
  workload.walk = !options.layers.walk.empty();
  workload.zipf_exponent = options.layers.zipf;
  workload.seed = options.seed;
  workload.rows = options.request.m;
  workload.inputs = options.request.inputs;
  return workload;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadSet>> LoadSet::Make(
    const LoadtestOptions& options, std::vector<LoadedLayer> layers) {
  std::unique_ptr<LoadSet> set(new LoadSet(options, std::move(layers)));
  RETURN_IF_ERROR(set->AddMessages());
  return set;
}

LoadSet::LoadSet(const LoadtestOptions& options,
                 std::vector<LoadedLayer> layers)
    : request_(options.request),
      seed_(options.seed),
      walk_(!options.layers.walk.empty()),
      layers_(std::move(layers)),
      workload_(WorkloadOf(options, layers_.size())) {
  for (const RowClass& each : request_.m.classes()) {
    class_rows_.push_back(each.rows);
  }
  if (request_.prefill_clients > 0) class_rows_.push_back(request_.prefill_m);
}

std::vector<std::string> LoadSet::class_names() const {
  std::vector<std::string> names;
  for (int64_t rows : class_rows_) names.push_back(absl::StrCat("m=", rows));
  if (request_.prefill_clients > 0) {
    names.back() = absl::StrCat("prefill ", names.back());
  }
  return names;
}

absl::StatusOr<int> LoadSet::InputsThatFit() const {
  int64_t operand_bytes = 0;  // of one input of each layer and class
  std::set<int64_t> ks;
  for (const LoadedLayer& layer : layers_) ks.insert(layer.k);
  for (int64_t m : class_rows_) {
    for (const LoadedLayer& layer : layers_) {
      const int64_t row = layer.k * SizeOf(request_.a_type) +
                          layer.n * SizeOf(request_.result_type());
      const int64_t bytes = CheckedMul(m, row).value_or(kMaxMessageBytes + 1);
      if (bytes <= kMaxMessageBytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("m = ", m, " rows of ", layer.name, " [", layer.n, ", ",
                       layer.k, "]: a request and its answer take more than ",
                       kMaxMessageBytes, " bytes"));
    }
    for (int64_t k : ks) operand_bytes += m * k * SizeOf(request_.a_type);
  }
  return static_cast<int>(std::clamp<int64_t>(
      kMaxOperandBytes / std::max<int64_t>(1, operand_bytes), 1,
      request_.inputs));
}

absl::Status LoadSet::AddMessages() {
  ASSIGN_OR_RETURN(inputs_, InputsThatFit());
  // By k, class and input: layers of equal k multiply the same A.
  std::map<std::vector<int64_t>, Operand> operands;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    GemmRequest gemm;
    gemm.weights = layers_[layer].name;
    gemm.a_type = request_.a_type;
    gemm.c_type = request_.c_type;
    gemm.mode = request_.mode;
    gemm.priority = request_.priority;
    for (size_t row_class = 0; row_class < class_rows_.size(); ++row_class) {
      gemm.m = class_rows_[row_class];
      for (int input = 0; input < inputs_; ++input) {
        const RequestPick message{static_cast<int>(layer),
                                  static_cast<int>(row_class), input};
        Operand& a = operands[{layers_[layer].k,
                               static_cast<int64_t>(row_class), input}];
        if (a == nullptr) {
          a = std::make_shared<const std::vector<uint8_t>>(OperandOf(message));
        }
        messages_.AddGemm(gemm, a);
      }
    }
  }
  return absl::OkStatus();
}

RequestPick LoadSet::Describe(int message) const {
  const int classes = static_cast<int>(class_rows_.size());
  RequestPick described;
  described.input = message % inputs_;
  described.row_class = message / inputs_ % classes;
  described.layer = message / inputs_ / classes;
  return described;
}

std::vector<uint8_t> LoadSet::OperandOf(const RequestPick& message) const {
  const int64_t k = layers_[message.layer].k;
  uint64_t seed = MixBits(seed_ ^ static_cast<uint64_t>(k));
  seed = MixBits(seed ^ static_cast<uint64_t>(message.row_class));
  seed = MixBits(seed ^ static_cast<uint64_t>(message.input));
  return MakeRandomActivations(request_.a_type, RowsOf(message) * k, seed);
}

int64_t LoadSet::AnswerBytes(const RequestPick& message) const {
  return RowsOf(message) * layers_[message.layer].n *
         SizeOf(request_.result_type());
}

PickedRequest LoadSet::Pick(int64_t client, int64_t sequence) const {
  // Arrivals of a walk go through it together; else each is a client.
  const bool arrival = client < 0;
  RequestPick pick =
      arrival && !walk_
          ? workload_.Pick(sequence, 0)
          : workload_.Pick(std::max<int64_t>(0, client), sequence);
  pick.input %= inputs_;
  if (client >= kFirstPrefillClient) {
    pick.row_class = static_cast<int>(class_rows_.size()) - 1;
  }
  const int classes = static_cast<int>(class_rows_.size());
  PickedRequest picked;
  picked.message =
      (pick.layer * classes + pick.row_class) * inputs_ + pick.input;
  picked.row_class = pick.row_class;
  picked.rows = class_rows_[pick.row_class];
  picked.bytes_sent =
      picked.rows * layers_[pick.layer].k * SizeOf(request_.a_type);
  return picked;
}

}  // namespace qgemm::loadtest
