// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets that microkernels are written for, and which of them
// this processor and operating system run.

#ifndef QGEMM_KERNELS_CPU_ISA_H_
#define QGEMM_KERNELS_CPU_ISA_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace qgemm::cpu {

// In rising order of preference.
enum class CpuIsa : uint8_t {
  kScalar,      // portable C++
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL on top of kAvx2
  kAvx512Vnni,  // kAvx512 and AVX512_VNNI
  kAvx512Bf16,  // kAvx512Vnni and AVX512_BF16
  kAmx,         // kAvx512Vnni and AMX tiles with bf16 products
};

// The sets that run here, worst first; kScalar is always the first. Asks the
// operating system to let this process use AMX, where the processor has it.
std::vector<CpuIsa> SupportedCpuIsas();

// All sets, worst first.
inline constexpr CpuIsa kCpuIsas[] = {CpuIsa::kScalar,     CpuIsa::kAvx2,
                                      CpuIsa::kAvx512,     CpuIsa::kAvx512Vnni,
                                      CpuIsa::kAvx512Bf16, CpuIsa::kAmx};

// "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx".
absl::string_view Name(CpuIsa isa);

// The set of that name, or nullopt.
std::optional<CpuIsa> ParseCpuIsa(absl::string_view name);

}  // namespace qgemm::cpu

#endif  // QGEMM_KERNELS_CPU_ISA_H_
