// SPDX-License-Identifier: Apache-2.0
//
// Scratch is given out first-fit, in the order in which values are made.

#include "kernels/programs/value_layout.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"

namespace qgemm {
namespace {

constexpr int64_t kAlignment = 64;

// Turns in which a value is alive: from that which makes it to the last that
// reads it.
struct Lifetime {
  int64_t first;
  int64_t last;
};

// Bytes [begin, end) of a row's scratch, and the lifetime of their value.
struct Lease {
  int64_t begin;
  int64_t end;
  Lifetime lifetime;
};

// The lowest bytes that no lease has while the value is alive. `leases` are in
// the order of their begins.
Lease FirstFit(int64_t bytes, const Lifetime& lifetime,
               const std::vector<Lease>& leases) {
  int64_t begin = 0;
  for (const Lease& lease : leases) {
    if (lease.lifetime.last < lifetime.first ||
        lease.lifetime.first > lifetime.last) {
      continue;
    }
    if (begin + bytes <= lease.begin) break;
    begin = std::max(begin, lease.end);
  }
  return {begin, begin + bytes, lifetime};
}

class ScratchPlan {
 public:
  // The first byte of the value.
  int64_t Add(int64_t row_bytes, const Lifetime& lifetime) {
    const Lease lease =
        FirstFit(RoundUp(row_bytes, kAlignment), lifetime, leases_);
    const auto behind = std::upper_bound(
        leases_.begin(), leases_.end(), lease,
        [](const Lease& a, const Lease& b) { return a.begin < b.begin; });
    leases_.insert(behind, lease);
    bytes_ = std::max(bytes_, lease.end);
    return lease.begin;
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::vector<Lease> leases_;
  int64_t bytes_ = 0;
};

}  // namespace

ValueLayout LayOutValues(const CheckedProgram& program) {
  std::vector<int64_t> turns(program.ops().size());
  std::iota(turns.begin(), turns.end(), 0);
  return LayOutValues(program, turns);
}

ValueLayout LayOutValues(const CheckedProgram& program,
                         absl::Span<const int64_t> turns) {
  using Memory = ValuePlace::Memory;
  ValueLayout layout;
  ScratchPlan scratch;
  int64_t inputs_bytes = 0;
  int64_t constants = 0;
  for (const ProgramValue& value : program.values()) {
    if (value.origin == ProgramValue::Origin::kInput) {
      layout.places.push_back({Memory::kInputs, inputs_bytes});
      inputs_bytes += value.row_bytes();
    } else if (value.origin == ProgramValue::Origin::kConstant) {
      layout.places.push_back({Memory::kConstant, constants++});
    } else if (value.output < 0) {
      const int64_t last_op = std::max(value.made_by, value.last_read);
      const Lifetime lifetime = {turns[value.made_by], turns[last_op]};
      layout.places.push_back(
          {Memory::kScratch, scratch.Add(value.row_bytes(), lifetime)});
    } else {
      layout.places.push_back({Memory::kOutputs, 0});
    }
  }
  int64_t outputs_bytes = 0;
  for (const ValueNumber output : program.program().outputs) {
    layout.places[output].offset = outputs_bytes;
    outputs_bytes += program.values()[output].row_bytes();
  }
  layout.scratch_bytes = scratch.bytes();
  return layout;
}

}  // namespace qgemm
