// SPDX-License-Identifier: Apache-2.0
//
// Neighbours of one family are cut greedily, the widest microkernel first.

#include "kernels/cpu/row_strips.h"

#include <algorithm>

namespace qgemm::cpu {
namespace {

// The microkernel for one row of fp32.
const Microkernel* SingleOf(const FamilyChoice& choice, RowFamily family) {
  const Microkernel* own = choice.of(family).by_rows[0];
  return own->form == kFormFloats ? own : choice.base.by_rows[0];
}

}  // namespace

FamilyChoice ChooseFamilies(const MicrokernelTable& table,
                            const FamilyKeys& keys) {
  FamilyChoice choice = {Choose(table, keys.base),
                         Choose(table, keys.preferred), keys.least_rows,
                         Choose(table, keys.scaled), keys.scaled_rows};
  if (choice.preferred.empty()) choice.preferred = choice.base;
  if (choice.scaled.empty()) choice.scaled_rows = FamilyKeys::kNever;
  return choice;
}

const MicrokernelChoice& FamilyChoice::of(RowFamily family) const {
  switch (family) {
    case RowFamily::kBase:
      return base;
    case RowFamily::kPreferred:
      return preferred;
    case RowFamily::kScaled:
      return scaled;
  }
  return base;
}

RowFamily FamilyOf(const FamilyChoice& choice, int64_t request_rows) {
  if (request_rows >= choice.scaled_rows) return RowFamily::kScaled;
  return request_rows >= choice.least_rows ? RowFamily::kPreferred
                                           : RowFamily::kBase;
}

void CutStrips(const FamilyChoice& choice, absl::Span<const RowFamily> rows,
               std::vector<RowStrip>& strips) {
  strips.clear();
  const int64_t count = rows.size();
  for (int64_t first = 0; first < count;) {
    const RowFamily family = rows[first];
    int64_t end = first + 1;
    while (end < count && end - first < kMaxMr && rows[end] == family) ++end;
    const Microkernel* kernel = choice.of(family).by_rows[end - first - 1];
    const int64_t taken = std::min<int64_t>(end - first, kernel->mr);
    strips.push_back({first, taken, kernel, SingleOf(choice, family)});
    first += taken;
  }
}

}  // namespace qgemm::cpu
