// SPDX-License-Identifier: Apache-2.0
//
// What measures on one kind of device, and what a measurement comes to.

#ifndef QGEMM_BENCH_MEASURER_H_
#define QGEMM_BENCH_MEASURER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/bench_case.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// What the memory gives: the bound that a kernel at M = 1 runs into.
struct ReadRoof {
  double gbps = 0;         // the best pass
  double median_gbps = 0;  // how quiet the machine is
};

// A GPU's clocks at their highest, in MHz.
struct GpuClocks {
  int sm_mhz = 0;
  int memory_mhz = 0;
};

// What figures were measured on.
struct BenchMachine {
  BackendDescription backend;
  std::string driver;               // or the kernel of the operating system
  std::string build;                // compilers
  std::optional<GpuClocks> clocks;  // of a GPU

  // Whether cases are measured beside cuBLAS.
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
  // Of cuBLAS on dense weights of the same shape, M and type.
  std::optional<absl::Duration> cublas;
  // The same in fp32, operands and all; of ternary layers and few rows, which
  // otherwise are kept in fp32.
  std::optional<absl::Duration> cublas_fp32;
  // Of writing the whole layer out dense and cuBLAS on that.
  std::optional<absl::Duration> dequantize_cublas;
};

// Used by one thread at a time. Keeps the copies of the last layer, so that
// cases of one layer are best measured one after the other.
class Measurer {
 public:
  virtual ~Measurer() = default;

  virtual BenchMachine machine() const = 0;
  virtual absl::StatusOr<ReadRoof> MeasureRoof() = 0;
  // UNIMPLEMENTED if the backend does not offer the case.
  virtual absl::StatusOr<CaseResult> Measure(const BenchCase& bench_case) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_BENCH_MEASURER_H_
