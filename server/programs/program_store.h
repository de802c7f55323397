// SPDX-License-Identifier: Apache-2.0
//
// Programs that the server holds, by id and name, within the weights budget;
// and the way of a declared program there: its weights, its check, its
// identity, its compilation.

#ifndef QGEMM_SERVER_PROGRAMS_PROGRAM_STORE_H_
#define QGEMM_SERVER_PROGRAMS_PROGRAM_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/byte_budget.h"
#include "kernels/matrix/backend.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"
#include "kernels/programs/program_runner.h"
#include "server/metrics/server_metrics.h"
#include "server/weights/layer_loader.h"
#include "server/weights/name_binding.h"
#include "server/weights/named_store.h"
#include "server/weights/owners.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// One program that the server holds. Immutable.
struct ResidentProgram {
  std::string id;    // 64 hexadecimal digits
  std::string text;  // the canonical one
  // Keeps its share of the budget, and its weights with theirs.
  std::shared_ptr<const CompiledProgram> compiled;
  int64_t reserved_bytes = 0;  // of the budget, beside its weights
};

// Memory that counts for a client that holds the program: its own and its
// weights'.
std::vector<HeldItem> ItemsOf(const ResidentProgram& program);

using NamedProgram = NamedRecord<ResidentProgram>;
using ProgramsPage = ListPage<ResidentProgram>;

// Bounds of a store.
struct ProgramStoreLimits {
  int64_t max_programs = 4096;  // --max_programs
  int64_t max_names = 16384;    // --max_program_names
};

// Bytes of the budget that a program takes beside its weights and the bytes of
// its CompiledProgram: more than its record, constants and text take of the
// heap (program_store_memory_test). Its names take kNameRecordBytes each.
int64_t ProgramRecordBytes(const CheckedProgram& program,
                           absl::string_view text);

// Thread-safe. Names, ids, owners, callers and the list are NamedStore's. A
// program keeps the weights that it was compiled with, whatever happens to
// their names: their memory and budget, and its own, go back with the last
// pointer to `compiled`.
class ProgramStore {
 public:
  // `weights` has the budget and must outlive the store. `metrics` may be null,
  // else must outlive the store.
  ProgramStore(const ProgramStoreLimits& limits, WeightStore* weights,
               ServerMetrics* metrics = nullptr);

  // Returns OK if Commit would bind now. Errors: Commit's.
  absl::Status CheckCommit(const Principal* caller, const NameBinding& binding,
                           absl::string_view id) const {
    return programs_.CheckCommit(caller, binding, id);
  }

  // Makes the program visible, binds the name, and returns its record, which
  // keeps the reservation. If the id is held already, that record stays and is
  // returned, and `program` is dropped. On an error nothing changes. Errors:
  // NamedStore::Commit's.
  absl::StatusOr<std::shared_ptr<const ResidentProgram>> Commit(
      const Principal* caller, ResidentProgram program,
      ByteReservation reservation, const NameBinding& binding);

  // Binds the name to the program of `id` and returns it; null if the caller
  // sees none. Errors: Commit's.
  absl::StatusOr<std::shared_ptr<const ResidentProgram>> BindIfHeld(
      const Principal* caller, absl::string_view id,
      const NameBinding& binding) {
    return programs_.BindIfHeld(caller, id, binding);
  }

  // Look a program up by name or id. NOT_FOUND names the argument.
  absl::StatusOr<std::shared_ptr<const ResidentProgram>> Find(
      const Principal* caller, absl::string_view name_or_id) const {
    return programs_.Find(caller, name_or_id);
  }
  // With its names that come after `names_after`, in the order of bytes.
  absl::StatusOr<NamedProgram> Get(const Principal* caller,
                                   absl::string_view name_or_id,
                                   absl::string_view names_after = "") const {
    return programs_.Get(caller, name_or_id, names_after);
  }

  // Returns up to `max_programs` programs as NamedStore::List does.
  ProgramsPage List(const Principal* caller, absl::string_view after,
                    int64_t max_programs) const {
    return programs_.List(caller, after, max_programs);
  }

  // Drops a name, or a program, as WeightStore::Unload does.
  absl::StatusOr<bool> Unload(const Principal* caller,
                              absl::string_view name_or_id,
                              absl::string_view if_match = "") {
    return programs_.Unload(caller, name_or_id, if_match);
  }

  // Number of programs; of those that the caller holds, unless it manages all.
  int64_t program_count(const Principal* caller) const {
    return programs_.record_count(caller);
  }

 private:
  NamedStore<ResidentProgram> programs_;
};

// A program that was loaded.
struct LoadProgramResult {
  std::shared_ptr<const ResidentProgram> program;
  // The server had it already, and the caller saw it.
  bool deduplicated = false;
};

// Thread-safe.
class ProgramLoader {
 public:
  // All must outlive the loader. `loader` brings layers that are on the disk;
  // null if none can be.
  ProgramLoader(Backend* backend, WeightStore* weights, ProgramStore* programs,
                LayerLoader* loader = nullptr)
      : backend_(backend),
        weights_(weights),
        programs_(programs),
        loader_(loader) {}

  // Checks the program against the weights that its names stand for then and
  // that the caller may read, compiles it unless the caller sees that the
  // server has it already, and binds the name. On an error nothing changes.
  // Takes as long as its constants are hashed, its layers come from the disk
  // and the backend compiles. Errors:
  //   INVALID_ARGUMENT, NOT_FOUND  the binding's, CheckProgram's
  //   UNIMPLEMENTED                the backend runs no programs, or not this
  //   ALREADY_EXISTS, FAILED_PRECONDITION, RESOURCE_EXHAUSTED,
  //   PERMISSION_DENIED            ProgramStore::Commit's, the backend's memory
  absl::StatusOr<LoadProgramResult> Load(const Principal* caller,
                                         Program declared,
                                         const NameBinding& binding) const;

 private:
  Backend* const backend_;
  WeightStore* const weights_;
  ProgramStore* const programs_;
  LayerLoader* const loader_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_PROGRAMS_PROGRAM_STORE_H_
