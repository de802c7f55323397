// SPDX-License-Identifier: Apache-2.0
//
// Interface to measure on one kind of device, and the result of a measurement.

#ifndef QGEMM_BENCH_MEASURER_H_
#define QGEMM_BENCH_MEASURER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/bench_case.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Read rate of the memory: the bound of a kernel at M = 1.
struct ReadRoof {
  double gbps = 0;         // the best pass
  double median_gbps = 0;  // how quiet the machine is
};

// Rates of multiply-adds in registers, 10^9 operations a second (two of each
// multiply-add): the bound of a kernel with many rows.
struct MultiplyPeaks {
  double fp32_gflops = 0;
  double int8_gops = 0;
  double bf16_gflops = 0;    // of tiles or pairs; 0 where there are none
  bool splits_fp16 = false;  // fp16 activations are multiplied as bf16 parts
};

// The higher rate of each kind.
inline MultiplyPeaks BestOf(const MultiplyPeaks& a, const MultiplyPeaks& b) {
  return {std::max(a.fp32_gflops, b.fp32_gflops),
          std::max(a.int8_gops, b.int8_gops),
          std::max(a.bf16_gflops, b.bf16_gflops),
          a.splits_fp16 || b.splits_fp16};
}

// A GPU's clocks at their highest, in MHz.
struct GpuClocks {
  int sm_mhz = 0;
  int memory_mhz = 0;
};

// The machine of a run.
struct BenchMachine {
  BackendDescription backend;
  std::string driver;               // or the kernel of the operating system
  std::string build;                // compilers
  std::optional<GpuClocks> clocks;  // of a GPU

  // True if cases are measured beside cuBLAS.
  bool has_cublas() const { return clocks.has_value(); }
};

// Times are those of one GEMM.
struct CaseResult {
  absl::Duration median;
  absl::Duration fastest;
  absl::Duration slowest;
  int64_t bytes_moved = 0;  // of weights, A and C
  int copies = 0;           // of the layer, visited in turn

  // On a GPU only.
  std::string kernel;         // of cuda: "decode", "prefill" or "cublas", and
  std::string kernel_reason;  // why it was chosen
  // Time of cuBLAS on dense weights of the same shape, M and type.
  std::optional<absl::Duration> cublas;
  // The same with fp32 operands and results, for ternary layers and few rows:
  // such layers are otherwise kept in fp32.
  std::optional<absl::Duration> cublas_fp32;
  // Time of writing the whole layer out dense, then cuBLAS on that.
  std::optional<absl::Duration> dequantize_cublas;
};

// Used by one thread at a time. Keeps the copies of the last layer, so that
// cases of one layer are best measured one after the other.
class Measurer {
 public:
  virtual ~Measurer() = default;

  virtual BenchMachine machine() const = 0;
  virtual absl::StatusOr<ReadRoof> MeasureRoof() = 0;
  // nullopt where they are not measured.
  virtual std::optional<MultiplyPeaks> MeasurePeaks() { return std::nullopt; }
  // UNIMPLEMENTED if the backend does not offer the case.
  virtual absl::StatusOr<CaseResult> Measure(const BenchCase& bench_case) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_MEASURER_H_
