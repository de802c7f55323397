// SPDX-License-Identifier: Apache-2.0
//
// Assignment of a batch's rows to calls of microkernels. Pure.

#ifndef QGEMM_KERNELS_CPU_ROW_STRIPS_H_
#define QGEMM_KERNELS_CPU_ROW_STRIPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/support.h"

namespace qgemm::cpu {

enum class RowFamily : uint8_t { kBase, kPreferred, kScaled };

// The microkernels of FamilyKeys; the table must outlive them.
struct FamilyChoice {
  MicrokernelChoice base;
  MicrokernelChoice preferred;  // `base` where the set has none
  int64_t least_rows = 1;
  MicrokernelChoice scaled;  // empty where the set has none
  int64_t scaled_rows = FamilyKeys::kNever;

  const MicrokernelChoice& of(RowFamily family) const;
};
FamilyChoice ChooseFamilies(const MicrokernelTable& table,
                            const FamilyKeys& keys);

// The one that multiplies a row, decided by the row's own request.
RowFamily FamilyOf(const FamilyChoice& choice, int64_t request_rows);

// Consecutive rows that one call takes, whatever the tile.
struct RowStrip {
  int64_t first = 0;
  int64_t rows = 0;
  const Microkernel* kernel = nullptr;
  // Replaces a kernel that reads parts for rows that have none.
  const Microkernel* single = nullptr;

  bool reads_packed() const { return kernel->form == kFormPacked; }
  bool reads_parts() const { return kernel->form == kFormParts; }
};

// Replaces `strips` by those of all rows, in order.
void CutStrips(const FamilyChoice& choice, absl::Span<const RowFamily> rows,
               std::vector<RowStrip>& strips);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ROW_STRIPS_H_
