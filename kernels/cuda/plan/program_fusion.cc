// SPDX-License-Identifier: Apache-2.0
//
// Greedy, op by op: each joins the step before it where it can.

#include "kernels/cuda/plan/program_fusion.h"

#include <algorithm>
#include <utility>

#include "kernels/programs/op_fields.h"

namespace qgemm::cuda {
namespace {

constexpr int64_t kNothing = EpiloguePart::kNothing;

// True for ops that an epilogue applies to the columns that a thread has.
bool IsEpilogueKind(OpKind kind) {
  return IsColumnwise(kind) && kind != OpKind::kSlice;
}

class Fuser {
 public:
  Fuser(const CheckedProgram& program, absl::Span<const FusionFacts> facts,
        int64_t max_row_ops)
      : program_(program),
        facts_(facts),
        max_row_ops_(max_row_ops),
        readers_(program.values().size()) {
    for (const ProgramOp& op : program.ops()) CountReader(op);
  }

  std::vector<FusedStep> Run() {
    for (int64_t op = 0; op < op_count(); ++op) {
      if (Joins(op)) {
        ++steps_.back().ops;
      } else {
        Start(op);
      }
    }
    for (FusedStep& step : steps_) Finish(step);
    return std::move(steps_);
  }

 private:
  int64_t op_count() const { return static_cast<int64_t>(facts_.size()); }
  const ProgramOp& op_at(int64_t op) const { return program_.ops()[op]; }
  bool IsGemm(int64_t op) const { return op_at(op).kind == OpKind::kGemm; }

  void CountReader(const ProgramOp& op) {
    if (op.x != kNoValue) ++readers_[op.x];
    if (op.y != kNoValue && op.y != op.x) ++readers_[op.y];
  }

  // True if `op` is a norm of whole rows that the GEMM behind it can compute
  // for itself.
  bool IsNormOfAGroup(int64_t op) const {
    const ProgramOp& norm = op_at(op);
    if (norm.kind != OpKind::kRmsNorm && norm.kind != OpKind::kLayerNorm) {
      return false;
    }
    if (norm.group != 0 && norm.group != program_.values()[norm.x].width) {
      return false;
    }
    const int64_t next = op + 1;
    return next < op_count() && facts_[next].computes_norms &&
           facts_[next].kernel != FusionFacts::kNoKernel &&
           op_at(next).x == program_.result_of(op);
  }

  void Start(int64_t op) {
    FusedStep step;
    step.first_op = op;
    step.ops = 1;
    if (IsGemm(op)) {
      step.gemms.push_back({op});
      step.is_grouped = facts_[op].kernel != FusionFacts::kNoKernel;
    }
    if (IsNormOfAGroup(op)) step.norm = op;
    steps_.push_back(std::move(step));
  }

  // Adds `op` to the last step if it can be a part of it.
  bool Joins(int64_t op) {
    if (steps_.empty()) return false;
    FusedStep& step = steps_.back();
    if (step.norm == op - 1) {  // its GEMM
      step.gemms.push_back({op});
      step.is_grouped = true;
      return true;
    }
    if (step.gemms.empty()) {
      return !IsGemm(op) && !IsNormOfAGroup(op) && step.ops < max_row_ops_;
    }
    if (!step.is_grouped) return false;
    return IsGemm(op) ? JoinsGroup(op, step) : JoinsEpilogue(op, step);
  }

  bool JoinsGroup(int64_t op, FusedStep& step) {
    const int64_t first = step.gemms.front().op;
    if (step.gemms.size() == kMaxGroupedGemms ||
        facts_[op].kernel != facts_[first].kernel ||
        op_at(op).x != op_at(first).x) {
      return false;
    }
    step.gemms.push_back({op});
    return true;
  }

  // The value that a GEMM's epilogue has last.
  ValueNumber TailOf(const GroupedGemmPart& gemm) const {
    return program_.result_of(gemm.epilogue.empty() ? gemm.op
                                                    : gemm.epilogue.back().op);
  }

  bool JoinsEpilogue(int64_t op, FusedStep& step) {
    const ProgramOp& declared = op_at(op);
    if (!IsEpilogueKind(declared.kind)) return false;
    // The last GEMM of the group that it follows: others are done before.
    for (int64_t i = static_cast<int64_t>(step.gemms.size()) - 1; i >= 0; --i) {
      GroupedGemmPart& gemm = step.gemms[i];
      const ValueNumber tail = TailOf(gemm);
      if (tail != declared.x && tail != declared.y) continue;
      if (gemm.epilogue.size() == kMaxEpilogueOps) return false;
      EpiloguePart part;
      part.op = op;
      part.other = tail == declared.x ? declared.y : declared.x;
      if (!CanRead(part.other, i, step, part.awaited)) return false;
      // An op as wide as its tail.
      if (program_.values()[program_.result_of(op)].width !=
          program_.values()[tail].width) {
        return false;
      }
      if (part.awaited != kNothing) {
        if (!AwaitsOnlyOne(gemm, part.awaited)) return false;
        step.gemms[part.awaited].is_awaited = true;
      }
      gemm.epilogue.push_back(part);
      return true;
    }
    return false;
  }

  static bool AwaitsOnlyOne(const GroupedGemmPart& gemm, int64_t awaited) {
    return std::all_of(gemm.epilogue.begin(), gemm.epilogue.end(),
                       [awaited](const EpiloguePart& part) {
                         return part.awaited == kNothing ||
                                part.awaited == awaited;
                       });
  }

  // True if the epilogue of GEMM `reader` of the step can read that value:
  // there is none, it was there before the step, or it or an earlier GEMM makes
  // it, which is `awaited`.
  bool CanRead(ValueNumber value, int64_t reader, const FusedStep& step,
               int64_t& awaited) const {
    if (value == kNoValue) return true;
    const int64_t made_by = program_.values()[value].made_by;
    if (made_by < step.first_op) return true;
    for (int64_t i = 0; i <= reader; ++i) {
      const GroupedGemmPart& gemm = step.gemms[i];
      const bool makes = made_by == gemm.op ||
                         std::any_of(gemm.epilogue.begin(), gemm.epilogue.end(),
                                     [made_by](const EpiloguePart& part) {
                                       return part.op == made_by;
                                     });
      if (!makes) continue;
      awaited = i == reader ? kNothing : i;
      return true;
    }
    return false;
  }

  // True if a value whose next op in an epilogue is `next`, or none, is read by
  // anything else.
  bool IsStored(ValueNumber value, int64_t next) const {
    if (next < 0 || program_.values()[value].output >= 0) return true;
    const ProgramOp& op = op_at(next);
    // A number that is both operands is read twice, once from memory.
    return readers_[value] > 1 || (op.x == value && op.y == value);
  }

  // The GEMM whose blocks can multiply that of `place` as well.
  int64_t PairOf(const FusedStep& step, int64_t place) const {
    const GroupedGemmPart& gemm = step.gemms[place];
    int64_t pair = kNothing;
    for (const EpiloguePart& part : gemm.epilogue) {
      if (part.awaited == kNothing) continue;
      const GroupedGemmPart& other = step.gemms[part.awaited];
      if (part.other != TailOf(other) || other.pair != kNothing ||
          facts_[gemm.op].pair_class == FusionFacts::kNoPairs ||
          facts_[gemm.op].pair_class != facts_[other.op].pair_class) {
        return kNothing;
      }
      pair = part.awaited;
    }
    return pair;
  }

  void MarkPairs(FusedStep& step) const {
    std::vector<bool> taken(step.gemms.size());
    for (size_t place = 0; place < step.gemms.size(); ++place) {
      const int64_t pair = PairOf(step, place);
      if (pair == kNothing || taken[pair] || taken[place]) continue;
      taken[pair] = taken[place] = true;
      step.gemms[place].pair = pair;
      const ValueNumber tail = TailOf(step.gemms[pair]);
      step.gemms[pair].ends_for_pair =
          readers_[tail] == 1 && program_.values()[tail].output < 0;
    }
  }

  void Finish(FusedStep& step) const {
    if (step.ops == 1) step.is_grouped = false;
    MarkPairs(step);
    for (GroupedGemmPart& gemm : step.gemms) {
      std::vector<EpiloguePart>& parts = gemm.epilogue;
      gemm.stores = IsStored(program_.result_of(gemm.op),
                             parts.empty() ? kNothing : parts.front().op);
      for (size_t i = 0; i < parts.size(); ++i) {
        parts[i].stores =
            IsStored(program_.result_of(parts[i].op),
                     i + 1 < parts.size() ? parts[i + 1].op : kNothing);
      }
    }
  }

  const CheckedProgram& program_;
  const absl::Span<const FusionFacts> facts_;
  const int64_t max_row_ops_;
  std::vector<int> readers_;  // ops that read a value as x or y
  std::vector<FusedStep> steps_;
};

}  // namespace

std::vector<FusedStep> FuseSteps(const CheckedProgram& program,
                                 absl::Span<const FusionFacts> facts,
                                 int64_t max_row_ops) {
  return Fuser(program, facts, max_row_ops).Run();
}

ValueNumber FirstInput(const CheckedProgram& program,
                       absl::Span<const FusedStep> steps) {
  const FusedStep& first = steps.front();
  const bool multiplies = first.is_grouped && first.norm == FusedStep::kNoNorm;
  if (!multiplies || program.program().inputs.size() < 2) return kNoValue;
  const ValueNumber x = program.ops()[first.gemms.front().op].x;
  const bool is_input =
      program.values()[x].origin == ProgramValue::Origin::kInput;
  return is_input ? x : kNoValue;
}

std::vector<GroupedOutput> EarlyOutputs(const CheckedProgram& program,
                                        absl::Span<const FusedStep> steps) {
  std::vector<GroupedOutput> outputs;
  const auto add = [&](int64_t op, size_t step, size_t gemm) {
    const int64_t output = program.values()[program.result_of(op)].output;
    if (output < 0) return;
    outputs.push_back(
        {output, static_cast<int64_t>(step), static_cast<int64_t>(gemm)});
  };
  for (size_t step = 0; step + 1 < steps.size(); ++step) {
    if (!steps[step].is_grouped) continue;
    for (size_t i = 0; i < steps[step].gemms.size(); ++i) {
      const GroupedGemmPart& gemm = steps[step].gemms[i];
      add(gemm.op, step, i);
      for (const EpiloguePart& part : gemm.epilogue) add(part.op, step, i);
    }
  }
  return outputs;
}

}  // namespace qgemm::cuda
