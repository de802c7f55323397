// SPDX-License-Identifier: Apache-2.0
//
// Neighbours of one family are cut greedily, the widest microkernel first.

#include "kernels/cpu/row_strips.h"

#include <algorithm>

namespace qgemm::cpu {
namespace {

// The microkernel for one row of fp32.
const Microkernel* SingleOf(const FamilyChoice& choice, RowFamily family) {
  const Microkernel* own = choice.preferred.by_rows[0];
  return family == RowFamily::kPreferred && own->least_rows == 0
             ? own
             : choice.base.by_rows[0];
}

}  // namespace

FamilyChoice ChooseFamilies(const MicrokernelTable& table,
                            const FamilyKeys& keys) {
  FamilyChoice choice = {Choose(table, keys.base),
                         Choose(table, keys.preferred), keys.least_rows};
  if (choice.preferred.empty()) choice.preferred = choice.base;
  return choice;
}

RowFamily FamilyOf(const FamilyChoice& choice, int64_t request_rows) {
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
    const MicrokernelChoice& kernels =
        family == RowFamily::kPreferred ? choice.preferred : choice.base;
    const Microkernel* kernel = kernels.by_rows[end - first - 1];
    const int64_t taken = std::min<int64_t>(end - first, kernel->mr);
    strips.push_back({first, taken, kernel, SingleOf(choice, family)});
    first += taken;
  }
}

}  // namespace qgemm::cpu
