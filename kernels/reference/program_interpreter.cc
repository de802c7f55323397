// SPDX-License-Identifier: Apache-2.0
//
// Loads the operands of an op row by row, computes with row_ops.h or the matmul
// oracle, and rounds.

#include "kernels/reference/program_interpreter.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/matrix/fp64_oracle.h"
#include "kernels/matrix/types.h"
#include "kernels/reference/row_ops.h"

namespace qgemm::reference {
namespace {

// Results are rounded by way of fp32, as backends do that compute in it: where
// one op of theirs is exact to fp32 its bits are these.
float ToFloat32(double value) { return static_cast<float>(value); }

// Elements of a GEMM's operand that are finite and that mode A16 rounds to
// infinity: fp32 ones beyond fp16, or next to the end of bf16.
int64_t OverflowsOnTheWayIn(const MatmulSignature& signature,
                            absl::Span<const uint8_t> a) {
  if (signature.mode != ComputeMode::kA16 ||
      signature.a_type != FloatType::kFloat32) {
    return 0;
  }
  int64_t overflows = 0;
  for (size_t i = 0; i < a.size(); i += sizeof(float)) {
    const float element = LoadFloat(FloatType::kFloat32, &a[i]);
    if (std::isfinite(element) &&
        std::isinf(RoundTo(signature.rounding, element))) {
      ++overflows;
    }
  }
  return overflows;
}

class Interpreter {
 public:
  Interpreter(const CheckedProgram& program,
              absl::Span<const CanonicalWeights* const> weights, int64_t m)
      : program_(program), weights_(weights), m_(m) {}

  ProgramRun Run(absl::Span<const uint8_t> inputs) {
    AddInputs(inputs);
    for (const ProgramConstant& constant : program_.program().constants) {
      run_.values.push_back(constant.bytes);
    }
    const int64_t ops = static_cast<int64_t>(program_.ops().size());
    for (int64_t op = 0; op < ops; ++op) {
      const absl::Time start = SteadyClock().Now();
      RunOp(op);
      run_.op_times.push_back(SteadyClock().Now() - start);
    }
    return std::move(run_);
  }

 private:
  void AddInputs(absl::Span<const uint8_t> inputs);
  void RunOp(int64_t index);
  void RunGemm(int64_t index);
  void RunTopK(int64_t index);
  Row RowOf(const ProgramOp& op, int64_t row) const;
  Row Load(ValueNumber number, int64_t row) const;
  void Store(int64_t op, absl::Span<const double> elements);

  const CheckedProgram& program_;
  const absl::Span<const CanonicalWeights* const> weights_;
  const int64_t m_;
  ProgramRun run_;
};

void Interpreter::AddInputs(absl::Span<const uint8_t> inputs) {
  size_t offset = 0;
  for (size_t i = 0; i < program_.program().inputs.size(); ++i) {
    const size_t bytes = m_ * program_.values()[i].row_bytes();
    const absl::Span<const uint8_t> input = inputs.subspan(offset, bytes);
    run_.values.emplace_back(input.begin(), input.end());
    offset += bytes;
  }
}

void Interpreter::RunOp(int64_t index) {
  const ProgramOp& op = program_.ops()[index];
  run_.overflows.push_back(0);
  run_.values.emplace_back();
  if (op.kind == OpKind::kGemm) return RunGemm(index);
  if (op.kind == OpKind::kTopK) return RunTopK(index);
  for (int64_t row = 0; row < m_; ++row) Store(index, RowOf(op, row));
}

void Interpreter::RunGemm(int64_t index) {
  const MatmulSignature signature = program_.signature_of(index);
  const CanonicalWeights& weights = *weights_[program_.weights_of(index)];
  const std::vector<uint8_t>& a = run_.values[program_.ops()[index].x];
  run_.overflows[index] = OverflowsOnTheWayIn(signature, a);
  Store(index, Fp64Matmul(weights, signature, a, m_).values);
}

// The ids are a value of their own behind the values.
void Interpreter::RunTopK(int64_t index) {
  const ProgramOp& op = program_.ops()[index];
  std::vector<uint8_t> ids;
  for (int64_t row = 0; row < m_; ++row) {
    const Row x = Load(op.x, row);
    const std::vector<int32_t> columns = TopColumns(x, op.top_k);
    Row values;
    for (const int32_t column : columns) values.push_back(x[column]);
    Store(index, values);
    const auto* bytes = reinterpret_cast<const uint8_t*>(columns.data());
    ids.insert(ids.end(), bytes, bytes + columns.size() * sizeof(int32_t));
  }
  run_.values.push_back(std::move(ids));
}

// A row of the result of an op that is neither GEMM nor TOP_K.
Row Interpreter::RowOf(const ProgramOp& op, int64_t row) const {
  Row x = Load(op.x, row);
  const Row y = Load(op.y, row);
  const Row weight = Load(op.norm_weight, row);
  const Row bias = Load(op.norm_bias, row);
  const int64_t width = static_cast<int64_t>(x.size());
  switch (op.kind) {
    case OpKind::kAdd:
      for (int64_t j = 0; j < width; ++j) x[j] += y[j % y.size()];
      return x;
    case OpKind::kMul:
      for (int64_t j = 0; j < width; ++j) x[j] *= y[j % y.size()];
      return x;
    case OpKind::kAct:
      for (double& element : x) element = Activate(op.activation, element);
      return x;
    case OpKind::kClamp:
      for (double& element : x) element = Clamp(element, op.low, op.high);
      return x;
    case OpKind::kRmsNorm:
      return RmsNorm(x, weight, op.eps, op.group == 0 ? width : op.group);
    case OpKind::kLayerNorm:
      return LayerNorm(x, weight, bias, op.eps);
    case OpKind::kSlice:
      return Row(x.begin() + op.begin, x.begin() + op.begin + op.width);
    case OpKind::kConvert:
      return x;
    case OpKind::kGemm:
    case OpKind::kTopK:
      break;
  }
  LOG(FATAL) << Name(op.kind) << " is not computed by rows";
  return x;
}

// Empty for an operand that is absent; a constant's row stands for every row.
Row Interpreter::Load(ValueNumber number, int64_t row) const {
  if (number == kNoValue) return {};
  const ProgramValue& value = program_.values()[number];
  const FloatType type = FloatTypeOf(value.type);
  if (value.origin == ProgramValue::Origin::kConstant) row = 0;
  const uint8_t* bytes = &run_.values[number][row * value.row_bytes()];
  Row elements(value.width);
  for (double& element : elements) {
    element = LoadFloat(type, bytes);
    bytes += SizeOf(type);
  }
  return elements;
}

// Appends elements, rounded to the op's type, to its result.
void Interpreter::Store(int64_t op, absl::Span<const double> elements) {
  const FloatType type = FloatTypeOf(program_.ops()[op].type);
  std::vector<uint8_t>& result = run_.values.back();
  size_t offset = result.size();
  result.resize(offset + elements.size() * SizeOf(type));
  for (const double element : elements) {
    StoreFloat(type, ToFloat32(element), &result[offset]);
    if (std::isfinite(element) &&
        std::isinf(LoadFloat(type, &result[offset]))) {
      ++run_.overflows[op];
    }
    offset += SizeOf(type);
  }
}

}  // namespace

ProgramRun InterpretProgram(const CheckedProgram& program,
                            absl::Span<const CanonicalWeights* const> weights,
                            absl::Span<const uint8_t> inputs, int64_t m) {
  CHECK_GE(m, 1);
  CHECK_EQ(weights.size(), program.weights_ids().size());
  CHECK_EQ(static_cast<int64_t>(inputs.size()), m * program.input_row_bytes());
  return Interpreter(program, weights, m).Run(inputs);
}

std::vector<uint8_t> OutputsOf(const CheckedProgram& program,
                               const ProgramRun& run) {
  std::vector<uint8_t> outputs;
  for (const ValueNumber number : program.program().outputs) {
    const std::vector<uint8_t>& value = run.values[number];
    outputs.insert(outputs.end(), value.begin(), value.end());
  }
  return outputs;
}

}  // namespace qgemm::reference
