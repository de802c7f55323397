// SPDX-License-Identifier: Apache-2.0
//
// Weights are looked up once by each name, and held from there on: the program
// that is compiled is the one that was checked, whatever is unloaded meanwhile.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/byte_budget.h"
#include "base/status_macros.h"
#include "kernels/formats/weights_spec.h"
#include "kernels/programs/canonical_text.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program_runner.h"
#include "server/programs/program_store.h"

namespace qgemm {
namespace {

// Time for which the load of a program waits for its layers, as other loads
// wait behind it.
constexpr absl::Duration kLayerPatience = absl::Seconds(30);

struct Leased {
  std::shared_ptr<const Weights> weights;
  // Its memory, which the program holds; null while it is on the disk.
  std::shared_ptr<const ResidentWeights> held;
};

// Weights by the program's names for them.
using LeasedWeights = std::map<std::string, Leased, std::less<>>;

// Weights that are unknown to the caller are left out: the check finds the op
// that names them. So are all of a program with too many ops, which it refuses.
LeasedWeights Lease(const Principal* caller, const Program& declared,
                    const WeightStore& store) {
  LeasedWeights leased;
  const int64_t ops = static_cast<int64_t>(declared.ops.size());
  if (ops > ProgramLimits().max_ops) return leased;
  for (const ProgramOp& op : declared.ops) {
    if (op.kind != OpKind::kGemm || leased.count(op.weights) != 0) continue;
    auto weights = store.FindToUse(caller, op.weights);
    if (!weights.ok()) continue;
    auto held = store.Hold(**weights);
    leased.emplace(op.weights, Leased{*std::move(weights), std::move(held)});
  }
  return leased;
}

// Brings those that are on the disk into memory. Errors: the loader's.
absl::Status Bring(const WeightStore& store, LayerLoader* loader,
                   LeasedWeights* leased) {
  const absl::Time deadline = absl::Now() + kLayerPatience;
  for (auto& [name, layer] : *leased) {
    if (layer.held != nullptr) continue;
    const absl::Duration left =
        std::max(deadline - absl::Now(), absl::ZeroDuration());
    ASSIGN_OR_RETURN(layer.weights, loader->Await(layer.weights->id, left));
    layer.held = store.Hold(*layer.weights);
  }
  return absl::OkStatus();
}

ProgramWeightsMap ShapesOf(const LeasedWeights& leased) {
  ProgramWeightsMap shapes;
  for (const auto& [name, layer] : leased) {
    shapes[name] = {layer.weights->id, ShapeOf(layer.weights->spec)};
  }
  return shapes;
}

// In the order of the program's ids. Of two layers with one id, of which one
// was loaded while the names were looked up, either will do.
WeightsOfProgram InOrder(const LeasedWeights& leased,
                         const CheckedProgram& program) {
  std::map<absl::string_view, const Leased*> by_id;
  for (const auto& [name, layer] : leased) {
    by_id.emplace(layer.weights->id, &layer);
  }
  WeightsOfProgram ordered;
  ordered.reserve(program.weights_ids().size());
  for (const std::string& id : program.weights_ids()) {
    ordered.push_back(by_id.at(id)->held);
  }
  return ordered;
}

absl::Status RunsNoPrograms(const Backend& backend) {
  return absl::UnimplementedError(
      absl::StrCat("backend ", backend.describe().name,
                   " runs no programs; cpu, cuda and reference do"));
}

}  // namespace

absl::StatusOr<LoadProgramResult> ProgramLoader::Load(
    const Principal* caller, Program declared,
    const NameBinding& binding) const {
  ProgramRunner* const runner = backend_->programs();
  if (runner == nullptr) return RunsNoPrograms(*backend_);
  RETURN_IF_ERROR(Validate(binding));
  LeasedWeights leased = Lease(caller, declared, *weights_);
  ASSIGN_OR_RETURN(CheckedProgram checked,
                   CheckProgram(std::move(declared), ShapesOf(leased)));
  ResidentProgram program;
  program.text = CanonicalText(checked);
  program.id = ProgramIdOf(program.text);
  ASSIGN_OR_RETURN(auto held,
                   programs_->BindIfHeld(caller, program.id, binding));
  if (held != nullptr) {
    return LoadProgramResult{std::move(held), /*deduplicated=*/true};
  }
  RETURN_IF_ERROR(programs_->CheckCommit(caller, binding, program.id));
  // Before it takes room of its own, for which its layers could not wait.
  RETURN_IF_ERROR(Bring(*weights_, loader_, &leased));
  ASSIGN_OR_RETURN(
      ByteReservation reservation,
      weights_->Reserve(caller, ProgramRecordBytes(checked, program.text)));
  WeightsOfProgram ordered = InOrder(leased, checked);
  ASSIGN_OR_RETURN(program.compiled,
                   runner->Compile(std::make_shared<const CheckedProgram>(
                                       std::move(checked)),
                                   std::move(ordered)));
  RETURN_IF_ERROR(WeightStore::Resize(
      caller, reservation.bytes() + program.compiled->resident_bytes(),
      &reservation));
  const CompiledProgram* const ours = program.compiled.get();
  // One that others alone see is compiled and shared without a word.
  const bool was_seen = programs_->Find(caller, program.id).ok();
  ASSIGN_OR_RETURN(held, programs_->Commit(caller, std::move(program),
                                           std::move(reservation), binding));
  const bool deduplicated =
      held->compiled.get() != ours && (ManagesAll(caller) || was_seen);
  return LoadProgramResult{std::move(held), deduplicated};
}

}  // namespace qgemm
