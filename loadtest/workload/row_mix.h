// SPDX-License-Identifier: Apache-2.0
//
// How many rows requests have: one number, or several in given shares.

#ifndef QGEMM_LOADTEST_WORKLOAD_ROW_MIX_H_
#define QGEMM_LOADTEST_WORKLOAD_ROW_MIX_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

struct RowClass {
  int64_t rows = 1;
  double share = 1;  // of the requests; the shares of a mix sum to 1
};

// One class or more, of different rows each. Immutable, and thread-safe.
class RowMix {
 public:
  // Every request has one row.
  RowMix() : RowMix({RowClass{}}) {}

  const std::vector<RowClass>& classes() const { return classes_; }

  // The index of a class, as often as its share says; `uniform` is within
  // [0, 1).
  int Pick(double uniform) const;

  // Rows a request on average.
  double mean_rows() const;

 private:
  friend absl::StatusOr<RowMix> ParseRowMix(absl::string_view text);

  explicit RowMix(std::vector<RowClass> classes);

  std::vector<RowClass> classes_;
  std::vector<double> share_ends_;  // sums of the shares up to each class
};

// "1", or ROWS:WEIGHT separated by commas, as in "1:0.9,16:0.08,256:0.02".
// Weights need not sum to 1; one left out is 1.
// Errors: INVALID_ARGUMENT that names --m, the entry and what is legal.
absl::StatusOr<RowMix> ParseRowMix(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_WORKLOAD_ROW_MIX_H_
