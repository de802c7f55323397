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

WorkloadOptions WorkloadOf(const LoadtestOptions& options, size_t targets) {
  WorkloadOptions workload;
  workload.layers = static_cast<int>(targets);
  workload.walk = options.layers.is_walk();
  workload.zipf_exponent = options.layers.zipf;
  workload.seed = options.seed;
  workload.rows = options.request.m;
  workload.inputs = options.request.inputs;
  return workload;
}

}  // namespace

RowRange RowsOfPart(int64_t m, int part, int parts) {
  const int64_t longer = m % parts;
  return {part * (m / parts) + std::min<int64_t>(part, longer),
          m / parts + (part < longer ? 1 : 0)};
}

absl::StatusOr<std::unique_ptr<LoadSet>> LoadSet::Make(
    const LoadtestOptions& options, LoadTargets targets) {
  std::unique_ptr<LoadSet> set(new LoadSet(options, std::move(targets)));
  RETURN_IF_ERROR(set->AddMessages());
  return set;
}

LoadSet::LoadSet(const LoadtestOptions& options, LoadTargets targets)
    : request_(options.request),
      seed_(options.seed),
      walk_(options.layers.is_walk()),
      targets_(std::move(targets)),
      rows_(RowsOfTargets()),
      workload_(WorkloadOf(options, rows_.size())) {
  for (const RowClass& each : request_.m.classes()) {
    class_rows_.push_back(each.rows);
  }
  if (request_.prefill_clients > 0) class_rows_.push_back(request_.prefill_m);
}

std::vector<LoadSet::TargetRows> LoadSet::RowsOfTargets() const {
  std::vector<TargetRows> targets;
  for (const LoadedProgram& each : targets_.programs) {
    targets.push_back({absl::StrCat("program ", each.name),
                       FloatType::kBFloat16, each.input_row_elements,
                       each.output_row_bytes});
  }
  if (!targets.empty()) return targets;
  for (const LoadedLayer& each : targets_.layers) {
    targets.push_back({absl::StrCat(each.name, " [", each.n, ", ", each.k, "]"),
                       request_.a_type, each.k,
                       each.n * SizeOf(request_.result_type())});
  }
  return targets;
}

std::vector<std::string> LoadSet::class_names() const {
  std::vector<std::string> names;
  const std::string cut =
      parts() > 1 ? absl::StrCat(" in ", parts(), " parts") : "";
  for (int64_t rows : class_rows_) {
    names.push_back(absl::StrCat("m=", rows, cut));
  }
  if (request_.prefill_clients > 0) {
    names.back() = absl::StrCat("prefill ", names.back());
  }
  return names;
}

absl::StatusOr<int> LoadSet::InputsThatFit() const {
  int64_t operand_bytes = 0;  // of one input of each target and class
  std::set<int64_t> row_bytes;
  for (const TargetRows& each : rows_) {
    row_bytes.insert(each.a_elements * SizeOf(each.a_type));
  }
  for (int64_t m : class_rows_) {
    const int64_t part_rows = RowsOfPart(m, 0, parts()).rows;
    for (const TargetRows& each : rows_) {
      const int64_t row =
          each.a_elements * SizeOf(each.a_type) + each.answer_bytes;
      const int64_t bytes =
          CheckedMul(part_rows, row).value_or(kMaxMessageBytes + 1);
      if (bytes <= kMaxMessageBytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("m = ", m, " rows of ", each.text,
                       ": a request and its answer take more than ",
                       kMaxMessageBytes, " bytes"));
    }
    for (int64_t row : row_bytes) operand_bytes += m * row;
  }
  return static_cast<int>(std::clamp<int64_t>(
      kMaxOperandBytes / std::max<int64_t>(1, operand_bytes), 1,
      request_.inputs));
}

absl::Status LoadSet::AddMessages() {
  ASSIGN_OR_RETURN(inputs_, InputsThatFit());
  // By elements of a row, class and input: targets whose rows are as wide share
  // their operands.
  std::map<std::vector<int64_t>, Operand> operands;
  for (size_t target = 0; target < rows_.size(); ++target) {
    for (size_t row_class = 0; row_class < class_rows_.size(); ++row_class) {
      for (int input = 0; input < inputs_; ++input) {
        const RequestPick request{static_cast<int>(target),
                                  static_cast<int>(row_class), input};
        Operand& operand = operands[{rows_[target].a_elements,
                                     static_cast<int64_t>(row_class), input}];
        if (operand == nullptr) {
          operand =
              std::make_shared<const std::vector<uint8_t>>(OperandOf(request));
        }
        AddRequest(request, operand);
      }
    }
  }
  return absl::OkStatus();
}

void LoadSet::AddRequest(const RequestPick& request, const Operand& operand) {
  const int64_t row_bytes = OperandRowBytes(request);
  for (int part = 0; part < parts(); ++part) {
    const RowRange range = RowsOfPart(RowsOf(request), part, parts());
    const auto rows = absl::MakeConstSpan(*operand).subspan(
        range.first * row_bytes, range.rows * row_bytes);
    if (!programs().empty()) {
      RunRequest run;
      run.program = programs()[request.layer].name;
      run.m = range.rows;
      run.inputs = {rows};
      run.priority = request_.priority;
      messages_.AddRun(run, operand);
      continue;
    }
    GemmRequest gemm;
    gemm.weights = layers()[request.layer].name;
    gemm.m = range.rows;
    gemm.a = rows;
    gemm.a_type = request_.a_type;
    gemm.c_type = request_.c_type;
    gemm.mode = request_.mode;
    gemm.priority = request_.priority;
    messages_.AddGemm(gemm, operand);
  }
}

RequestPick LoadSet::Describe(int request) const {
  const int classes = static_cast<int>(class_rows_.size());
  RequestPick described;
  described.input = request % inputs_;
  described.row_class = request / inputs_ % classes;
  described.layer = request / inputs_ / classes;
  return described;
}

std::vector<uint8_t> LoadSet::OperandOf(const RequestPick& request) const {
  const TargetRows& rows = rows_[request.layer];
  uint64_t seed = MixBits(seed_ ^ static_cast<uint64_t>(rows.a_elements));
  seed = MixBits(seed ^ static_cast<uint64_t>(request.row_class));
  seed = MixBits(seed ^ static_cast<uint64_t>(request.input));
  return MakeRandomActivations(rows.a_type, RowsOf(request) * rows.a_elements,
                               seed);
}

int64_t LoadSet::OperandRowBytes(const RequestPick& request) const {
  const TargetRows& rows = rows_[request.layer];
  return rows.a_elements * SizeOf(rows.a_type);
}

int64_t LoadSet::AnswerBytes(const RequestPick& request) const {
  return RowsOf(request) * rows_[request.layer].answer_bytes;
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
  picked.bytes_sent = picked.rows * OperandRowBytes(pick);
  return picked;
}

}  // namespace qgemm::loadtest
