// SPDX-License-Identifier: Apache-2.0
//
// The values of every op are the outputs of a second program, of the same ops
// and with every result as an output.

#include "tests/server/rpc/program_trial.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/reference/program_interpreter.h"
#include "tests/support/random_matrix.h"

namespace qgemm {
namespace {

// A norm squares in fp32; it is not defined beyond.
constexpr float kMaxNormElement = 0x1p60f;
constexpr float kSpecials[] = {0.0f,
                               -0.0f,
                               0x1p-140f,
                               65504.0f,
                               65520.0f,
                               -3e38f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};

std::vector<uint8_t> RandomInputs(const CheckedProgram& program, int64_t m) {
  const std::string text = CanonicalText(program);
  RandomGenerator random(std::hash<std::string>()(text) + m);
  std::vector<uint8_t> inputs;
  for (const ProgramInput& value : program.program().inputs) {
    const FloatType type = FloatTypeOf(value.type);
    std::vector<uint8_t> rows = RandomMatrix(type, m, value.width, &random);
    if (RandomInt(0, 3, &random) == 0) {
      const int64_t at = RandomInt(0, m * value.width - 1, &random);
      StoreFloat(type, RandomElement(kSpecials, &random),
                 &rows[at * SizeOf(type)]);
    }
    inputs.insert(inputs.end(), rows.begin(), rows.end());
  }
  return inputs;
}

// True if the op is defined for its operand.
bool IsDefined(const CheckedProgram& program,
               const reference::ProgramValues& values, const ProgramOp& op) {
  if (op.kind != OpKind::kRmsNorm && op.kind != OpKind::kLayerNorm) return true;
  const FloatType type = FloatTypeOf(program.values()[op.x].type);
  const std::vector<uint8_t>& x = values[op.x];
  for (size_t i = 0; i < x.size(); i += SizeOf(type)) {
    const float element = LoadFloat(type, &x[i]);
    if (std::isfinite(element) && std::abs(element) > kMaxNormElement) {
      return false;
    }
  }
  return true;
}

}  // namespace

ProgramTrial::ProgramTrial(Backend* backend,
                           const CanonicalWeightsById* weights,
                           std::shared_ptr<const CompiledProgram> program,
                           int64_t m)
    : backend_(backend),
      weights_(*weights),
      compiled_(std::move(program)),
      m_(m),
      inputs_(RandomInputs(compiled_->program(), m)) {}

std::vector<const CanonicalWeights*> ProgramTrial::Weights() const {
  std::vector<const CanonicalWeights*> weights;
  for (const std::string& id : program().weights_ids()) {
    weights.push_back(&weights_.at(id));
  }
  return weights;
}

void ProgramTrial::Interpret() const {
  const reference::ProgramRun run =
      reference::InterpretProgram(program(), Weights(), inputs_, m_);
  for (size_t i = 0; i < program().values().size(); ++i) {
    const ProgramValue& value = program().values()[i];
    const bool one_row = value.origin == ProgramValue::Origin::kConstant;
    CHECK_EQ(static_cast<int64_t>(run.values[i].size()),
             (one_row ? 1 : m_) * value.row_bytes());
  }
  CHECK_EQ(static_cast<int64_t>(reference::OutputsOf(program(), run).size()),
           m_ * program().output_row_bytes());
}

std::shared_ptr<const CompiledProgram> ProgramTrial::WithAllOutputs() const {
  Program with_all = program().program();
  with_all.outputs.clear();
  const auto count = static_cast<ValueNumber>(program().values().size());
  for (ValueNumber number = program().result_of(0); number < count; ++number) {
    with_all.outputs.push_back(number);
  }
  ProgramWeightsMap shapes;
  for (size_t op = 0; op < with_all.ops.size(); ++op) {
    if (with_all.ops[op].kind != OpKind::kGemm) continue;
    const std::string& id =
        program().weights_ids()[program().weights_of(static_cast<int64_t>(op))];
    shapes[with_all.ops[op].weights] = {id, weights_.at(id).header()};
  }
  absl::StatusOr<CheckedProgram> checked =
      CheckProgram(std::move(with_all), shapes);
  CHECK_OK(checked.status());
  auto all = backend_->programs()->Compile(
      std::make_shared<const CheckedProgram>(*std::move(checked)),
      compiled_->weights());
  CHECK_OK(all.status());
  return *std::move(all);
}

// `outputs` are those of a program whose outputs are all of its results.
reference::ProgramValues ProgramTrial::ValuesOf(
    const CheckedProgram& all, const std::vector<uint8_t>& outputs) const {
  reference::ProgramValues values =
      reference::ValuesBeforeOps(all, inputs_, m_);
  auto next = outputs.begin();
  for (const ValueNumber number : all.program().outputs) {
    const auto end = next + m_ * all.values()[number].row_bytes();
    values[number].assign(next, end);
    next = end;
  }
  return values;
}

void ProgramTrial::Execute() const {
  const auto with_all = WithAllOutputs();
  const CheckedProgram& all = with_all->program();
  const reference::ProgramValues values = ValuesOf(all, OutputsOf(with_all));
  const std::vector<const CanonicalWeights*> weights = Weights();
  for (size_t op = 0; op < all.ops().size(); ++op) {
    if (!IsDefined(all, values, all.ops()[op])) continue;
    CHECK_OK(
        reference::JudgeOp(all, weights, values, m_, static_cast<int64_t>(op)));
  }
  const std::vector<uint8_t> outputs = OutputsOf(compiled_);
  auto next = outputs.begin();
  for (const ValueNumber number : program().program().outputs) {
    const std::vector<uint8_t>& value = values[number];
    CHECK(std::equal(value.begin(), value.end(), next)) << "value " << number;
    next += static_cast<int64_t>(value.size());
  }
}

std::vector<uint8_t> ProgramTrial::OutputsOf(
    std::shared_ptr<const CompiledProgram> program) const {
  const int64_t output_bytes = m_ * program->program().output_row_bytes();
  auto a = backend_->AcquireStaging(static_cast<int64_t>(inputs_.size()));
  auto c = backend_->AcquireStaging(output_bytes);
  CHECK_OK(a.status());
  CHECK_OK(c.status());
  std::copy(inputs_.begin(), inputs_.end(), a->data());
  ProgramBatch batch = {std::move(program),
                        {{m_, 0, m_, a->data(), c->data()}}};
  absl::Notification computed;
  CHECK_OK(backend_->programs()->EnqueueProgram(
      std::move(batch), [&computed](absl::Status status, const BatchTimings&,
                                    ProgramBatch ended) {
        CHECK_OK(status);
        ended = ProgramBatch();  // or the program would outlive the trial
        computed.Notify();
      }));
  computed.WaitForNotification();
  return {c->data(), c->data() + output_bytes};
}

}  // namespace qgemm
