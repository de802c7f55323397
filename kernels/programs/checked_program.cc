// SPDX-License-Identifier: Apache-2.0
//
// The walk over a program: values by number, uses, outputs and scratch. The
// rules of single ops are in op_rules.cc.

#include "kernels/programs/checked_program.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/programs/op_fields.h"
#include "kernels/programs/op_rules.h"

namespace qgemm {
namespace {

constexpr size_t kMaxNameBytes = 128;

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The status with the place where it arose before its message.
absl::Status At(absl::string_view place, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(place, ": ", status.message()));
}

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return Refused(field, " has ", name.size(), " bytes; at most ",
                   kMaxNameBytes);
  }
  for (const char c : name) {
    if (absl::ascii_isalnum(c) ||
        absl::string_view("._/-").find(c) != absl::string_view::npos) {
      continue;
    }
    return Refused(field, " = \"", absl::CHexEscape(name),
                   "\"; it may have the characters A-Za-z0-9._/- only");
  }
  return absl::OkStatus();
}

// Checks what an input and a constant have in common.
absl::Status CheckSource(absl::string_view name, NumberType type, int64_t width,
                         const ProgramLimits& limits) {
  RETURN_IF_ERROR(CheckName("name", name));
  if (!IsFloat(type)) {
    return Refused("type = ", Name(type), ": must be fp32, fp16 or bf16");
  }
  if (width < 1 || width > limits.max_width) {
    return Refused("width = ", width, ": must be 1 to ", limits.max_width);
  }
  return absl::OkStatus();
}

}  // namespace

// One check, step by step; each step relies on those before.
class ProgramChecker {
 public:
  ProgramChecker(Program program, const ProgramWeightsMap& weights,
                 const ProgramLimits& limits)
      : weights_(weights), limits_(limits) {
    checked_.program_ = std::move(program);
  }

  absl::StatusOr<CheckedProgram> Check() {
    RETURN_IF_ERROR(CheckCounts());
    RETURN_IF_ERROR(AddInputs());
    RETURN_IF_ERROR(AddConstants());
    for (int64_t op = 0; op < OpCount(); ++op) RETURN_IF_ERROR(AddOp(op));
    RETURN_IF_ERROR(AddOutputs());
    RETURN_IF_ERROR(CheckUses());
    RETURN_IF_ERROR(AddScratch());
    return std::move(checked_);
  }

 private:
  const Program& program() const { return checked_.program_; }
  int64_t OpCount() const {
    return static_cast<int64_t>(checked_.program_.ops.size());
  }
  int64_t ValueCount() const {
    return static_cast<int64_t>(checked_.values_.size());
  }

  // "op 7 (gemm down)".
  std::string PlaceOf(int64_t op) const {
    return absl::StrCat("op ", op, " (", LabelOf(program().ops[op]), ")");
  }

  absl::Status CheckCounts() const;
  absl::Status AddInputs();
  absl::Status AddConstants();
  absl::Status AddOp(int64_t op);
  absl::Status AddResults(int64_t op);
  absl::StatusOr<const ProgramWeights*> FindWeights(int64_t op);
  absl::Status AddOutputs();
  absl::Status CheckUses() const;
  absl::Status AddScratch();
  int64_t ScratchRowBytesAt(int64_t op) const;

  const ProgramWeightsMap& weights_;
  const ProgramLimits& limits_;
  CheckedProgram checked_;
};

absl::Status ProgramChecker::CheckCounts() const {
  RETURN_IF_ERROR(CheckRevision(program().revision));
  if (program().inputs.empty()) return Refused("program: no inputs");
  if (program().ops.empty()) return Refused("program: no ops");
  if (program().outputs.empty()) return Refused("program: no outputs");
  if (OpCount() > limits_.max_ops) {
    return Refused("program: ", OpCount(), " ops; at most ", limits_.max_ops);
  }
  return absl::OkStatus();
}

absl::Status ProgramChecker::AddInputs() {
  for (size_t i = 0; i < program().inputs.size(); ++i) {
    const ProgramInput& input = program().inputs[i];
    RETURN_IF_ERROR(
        At(absl::StrCat("input ", i),
           CheckSource(input.name, input.type, input.width, limits_)));
    ProgramValue value;
    value.type = input.type;
    value.width = input.width;
    checked_.values_.push_back(value);
    // Widths are bounded: sums of row bytes stay far inside int64.
    checked_.input_row_bytes_ += value.row_bytes();
  }
  return absl::OkStatus();
}

absl::Status ProgramChecker::AddConstants() {
  for (size_t i = 0; i < program().constants.size(); ++i) {
    const ProgramConstant& constant = program().constants[i];
    const std::string place = absl::StrCat("constant ", i);
    RETURN_IF_ERROR(At(place, CheckSource(constant.name, constant.type,
                                          constant.width(), limits_)));
    ProgramValue value;
    value.origin = ProgramValue::Origin::kConstant;
    value.type = constant.type;
    value.width = constant.width();
    checked_.values_.push_back(value);
    const int64_t bytes = static_cast<int64_t>(constant.bytes.size());
    if (bytes != value.row_bytes()) {
      return Refused(place, ": ", bytes, " bytes are no whole number of ",
                     Name(constant.type));
    }
    checked_.constant_bytes_ += bytes;
  }
  if (checked_.constant_bytes_ > limits_.max_constant_bytes) {
    return Refused("constants: ", checked_.constant_bytes_,
                   " bytes in all; at most ", limits_.max_constant_bytes);
  }
  return absl::OkStatus();
}

absl::Status ProgramChecker::AddOp(int64_t op) {
  const ProgramOp& declared = program().ops[op];
  RETURN_IF_ERROR(
      At(absl::StrCat("op ", op), CheckName("name", declared.name)));
  const std::string place = PlaceOf(op);
  RETURN_IF_ERROR(At(place, CheckName("weights", declared.weights)));
  RETURN_IF_ERROR(At(place, CheckFields(declared)));
  return At(place, AddResults(op));
}

absl::Status ProgramChecker::AddResults(int64_t op) {
  const ProgramOp& declared = program().ops[op];
  ASSIGN_OR_RETURN(const ProgramWeights* weights, FindWeights(op));
  const OpContext context = {declared, checked_.values_, weights, limits_};
  RETURN_IF_ERROR(CheckOperands(context));
  ProgramValue result;
  ASSIGN_OR_RETURN(result.width, ResultWidth(context));
  if (result.width < 1 || result.width > limits_.max_width) {
    return Refused("its result has width ", result.width, ": must be 1 to ",
                   limits_.max_width);
  }
  for (const OpOperand& operand : OperandsOf(declared)) {
    checked_.values_[operand.value].last_read = op;
  }
  result.origin = ProgramValue::Origin::kResult;
  result.type = declared.type;
  result.made_by = op;
  checked_.first_results_.push_back(ValueCount());
  checked_.values_.push_back(result);
  if (declared.kind == OpKind::kTopK) {
    result.type = NumberType::kInt32;
    checked_.values_.push_back(result);
  }
  return absl::OkStatus();
}

absl::StatusOr<const ProgramWeights*> ProgramChecker::FindWeights(int64_t op) {
  const ProgramOp& declared = program().ops[op];
  if (declared.kind != OpKind::kGemm) {
    checked_.weights_of_ops_.push_back(-1);
    return nullptr;
  }
  const auto found = weights_.find(declared.weights);
  if (found == weights_.end()) {
    return absl::NotFoundError(
        absl::StrCat("weights ", declared.weights, " are not loaded"));
  }
  std::vector<std::string>& ids = checked_.weights_ids_;
  const auto place = absl::c_find(ids, found->second.id);
  checked_.weights_of_ops_.push_back(place - ids.begin());
  if (place == ids.end()) ids.push_back(found->second.id);
  return &found->second;
}

absl::Status ProgramChecker::AddOutputs() {
  for (size_t i = 0; i < program().outputs.size(); ++i) {
    const ValueNumber number = program().outputs[i];
    if (number < 0 || number >= ValueCount()) {
      return Refused("output ", i, " = ", number, ": the values are 0 to ",
                     ValueCount() - 1);
    }
    ProgramValue& value = checked_.values_[number];
    if (value.origin != ProgramValue::Origin::kResult) {
      return Refused("output ", i, ": value ", number,
                     " is no result of an op");
    }
    if (value.output >= 0) {
      return Refused("output ", i, ": value ", number, " is output ",
                     value.output, " already");
    }
    value.output = static_cast<int64_t>(i);
    checked_.output_row_bytes_ += value.row_bytes();
  }
  return absl::OkStatus();
}

absl::Status ProgramChecker::CheckUses() const {
  const auto used = [this](ValueNumber number) {
    const ProgramValue& value = checked_.values_[number];
    return value.last_read >= 0 || value.output >= 0;
  };
  const int64_t inputs = static_cast<int64_t>(program().inputs.size());
  for (ValueNumber number = 0; number < ValueCount(); ++number) {
    const ProgramValue& value = checked_.values_[number];
    if (used(number)) continue;
    if (value.origin == ProgramValue::Origin::kInput) {
      return Refused("input ", number, ": no op reads it");
    }
    if (value.origin == ProgramValue::Origin::kConstant) {
      return Refused("constant ", number - inputs, ": no op reads value ",
                     number);
    }
    // One of TOP_K's two results is enough.
    const ValueNumber first = checked_.first_results_[value.made_by];
    const bool is_pair = ResultCount(program().ops[value.made_by].kind) == 2;
    if (is_pair && used(number == first ? first + 1 : first)) continue;
    return Refused(PlaceOf(value.made_by), ": its result, value ", number,
                   ", is neither read nor an output");
  }
  return absl::OkStatus();
}

int64_t ProgramChecker::ScratchRowBytesAt(int64_t op) const {
  int64_t bytes = 0;
  for (const ProgramValue& value : checked_.values_) {
    const bool scratch = value.origin == ProgramValue::Origin::kResult &&
                         value.output < 0 && value.made_by <= op &&
                         std::max(value.made_by, value.last_read) >= op;
    if (scratch) bytes += value.row_bytes();
  }
  return bytes;
}

absl::Status ProgramChecker::AddScratch() {
  for (int64_t op = 0; op < OpCount(); ++op) {
    const int64_t bytes = ScratchRowBytesAt(op);
    if (bytes > limits_.max_scratch_row_bytes) {
      return Refused(PlaceOf(op), ": ", bytes,
                     " bytes of results are alive in a row; at most ",
                     limits_.max_scratch_row_bytes);
    }
    checked_.scratch_row_bytes_ = std::max(checked_.scratch_row_bytes_, bytes);
  }
  return absl::OkStatus();
}

MatmulSignature CheckedProgram::signature_of(int64_t op) const {
  const ProgramOp& declared = program_.ops[op];
  return {FloatTypeOf(values_[declared.x].type), FloatTypeOf(declared.type),
          declared.mode, declared.rounding};
}

absl::Status CheckRevision(int64_t revision) {
  if (revision > kProgramRevision) {
    return absl::UnimplementedError(
        absl::StrCat("program: revision = ", revision, "; the latest known is ",
                     kProgramRevision));
  }
  if (revision >= 1) return absl::OkStatus();
  return Refused("program: revision = ", revision, "; the first is 1");
}

absl::StatusOr<CheckedProgram> CheckProgram(Program program,
                                            const ProgramWeightsMap& weights,
                                            const ProgramLimits& limits) {
  return ProgramChecker(std::move(program), weights, limits).Check();
}

}  // namespace qgemm
