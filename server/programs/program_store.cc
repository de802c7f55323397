// SPDX-License-Identifier: Apache-2.0

#include "server/programs/program_store.h"

#include <utility>

#include "base/check.h"
#include "base/heap_share.h"

namespace qgemm {
namespace {

// A program and its shares of the budget and the heap, which are given back
// after the memory.
struct BudgetedProgram {
  ByteReservation reservation;
  HeapShare constants;
  std::shared_ptr<const CompiledProgram> compiled;
};

// Returns a pointer to the program whose last copy gives back its reservation.
std::shared_ptr<const CompiledProgram> WithBudget(
    std::shared_ptr<const CompiledProgram> compiled,
    ByteReservation reservation) {
  auto owner = std::make_shared<BudgetedProgram>();
  const CompiledProgram* const program = compiled.get();
  owner->reservation = std::move(reservation);
  owner->constants = HeapShare(program->program().constant_bytes());
  owner->compiled = std::move(compiled);
  return std::shared_ptr<const CompiledProgram>(owner, program);
}

NamedStoreOptions ToNamedStoreOptions(const ProgramStoreLimits& limits,
                                      WeightStore* weights,
                                      ServerMetrics* metrics) {
  NamedStoreOptions options;
  options.noun = "program";
  options.plural = "programs";
  options.max_records = limits.max_programs;
  options.records_flag = "--max_programs";
  options.max_names = limits.max_names;
  options.names_flag = "--max_program_names";
  options.reserve_name = [weights](const Principal* caller) {
    return weights->Reserve(caller, kNameRecordBytes);
  };
  options.accounts = weights->accounts();
  if (metrics != nullptr) {
    options.on_change = [metrics](int64_t programs, int64_t names) {
      metrics->SetProgramCounts(programs, names);
    };
  }
  return options;
}

}  // namespace

int64_t ProgramRecordBytes(const CheckedProgram& program,
                           absl::string_view text) {
  // A record in the store, and a program's vectors, each of which may have
  // twice the room that it uses; names of 128 bytes, ids of 64.
  constexpr int64_t kRecordBytes = 8192;
  constexpr int64_t kOpBytes = 768;
  constexpr int64_t kValueBytes = 256;
  return kRecordBytes + static_cast<int64_t>(text.size()) +
         program.constant_bytes() +
         kOpBytes * static_cast<int64_t>(program.ops().size()) +
         kValueBytes * static_cast<int64_t>(program.values().size());
}

std::vector<HeldItem> ItemsOf(const ResidentProgram& program) {
  std::vector<HeldItem> items;
  items.push_back({program.compiled.get(), program.reserved_bytes});
  for (const auto& layer : program.compiled->weights()) {
    items.push_back({layer.get(), layer->resident_bytes() + kLayerRecordBytes});
  }
  return items;
}

ProgramStore::ProgramStore(const ProgramStoreLimits& limits,
                           WeightStore* weights, ServerMetrics* metrics)
    : programs_(ToNamedStoreOptions(limits, weights, metrics)) {}

absl::StatusOr<std::shared_ptr<const ResidentProgram>> ProgramStore::Commit(
    const Principal* caller, ResidentProgram program,
    ByteReservation reservation, const NameBinding& binding) {
  CHECK(program.compiled != nullptr);
  program.reserved_bytes = reservation.bytes();
  program.compiled =
      WithBudget(std::move(program.compiled), std::move(reservation));
  return programs_.Commit(
      caller, std::make_shared<const ResidentProgram>(std::move(program)),
      binding);
}

}  // namespace qgemm
