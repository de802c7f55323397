// SPDX-License-Identifier: Apache-2.0
//
// Cases that the kernel bench measures, and their names in options. Pure
// values; measuring is behind measurer.h, the sweeps are in sweep.h.

#ifndef QGEMM_BENCH_BENCH_CASE_H_
#define QGEMM_BENCH_BENCH_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/plan/kernel_path.h"
#include "kernels/matrix/types.h"

namespace qgemm {

struct BenchShape {
  int64_t k = 0;
  int64_t n = 0;
};

struct BenchCase {
  std::string format;  // kbit2 kbit3 kbit4 kbit5 q4_0 int4 ternary dense
  BenchShape shape;
  int64_t m = 0;
  FloatType dtype = FloatType::kFloat16;  // of A and C
  ComputeMode mode = ComputeMode::kA16;
  // Forced path of the cuda backend.
  cuda::KernelPath kernel = cuda::KernelPath::kAuto;

  // fp32 activations are rounded to bf16.
  MatmulSignature signature() const {
    return {dtype, dtype, mode, FloatType::kBFloat16};
  }
};

// The lists of a sweep, as text of options.
struct SweepText {
  std::string shapes;   // "4096x14336,...": K x N
  std::string m;        // "1,16"
  std::string formats;  // "kbit4,q4_0"
  std::string dtypes;   // "fp16,bf16,fp32"
};

// The cases of a text without empty pieces: by shape, then format, then dtype
// and mode, then m, so that cases of one layer are neighbours. Each format is
// measured in mode A16 (with fp32 operands in A32 where the format offers it),
// Q4_0 in A8 as well. INVALID_ARGUMENT names the option and the piece that is
// wrong.
absl::StatusOr<std::vector<BenchCase>> ExpandSweep(const SweepText& text);

// True if the two use the same weights.
bool SameLayer(const BenchCase& a, const BenchCase& b);

}  // namespace qgemm

#endif  // QGEMM_BENCH_BENCH_CASE_H_
