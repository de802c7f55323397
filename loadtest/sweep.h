// SPDX-License-Identifier: Apache-2.0
//
// --sweep: one run for each value of one flag.

#ifndef QGEMM_LOADTEST_SWEEP_H_
#define QGEMM_LOADTEST_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace qgemm {

enum class SweptFlag : uint8_t { kRate, kConcurrency, kM };

struct Sweep {
  SweptFlag flag = SweptFlag::kRate;
  std::vector<std::string> values;  // as the flag would take them

  // "rate=200".
  std::string Label(size_t point) const;
};

// "rate=100,200,400", "concurrency=1,2,4" or "m=1,16,64"; ranges as in
// "rate=1000..8000/8" are that many values, evenly on a log scale, rounded to
// three digits. Empty text: no values. The values themselves are not checked.
// Errors: INVALID_ARGUMENT that names --sweep and what is legal.
absl::StatusOr<Sweep> ParseSweep(absl::string_view text);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SWEEP_H_
