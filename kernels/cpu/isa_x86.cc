// SPDX-License-Identifier: Apache-2.0
//
// Detection on x86-64. The compiler's builtin reads cpuid and XCR0, so a set
// whose registers the operating system does not save counts as absent.

#include <cpuid.h>

#include "kernels/cpu/isa.h"

namespace qgemm {
namespace {

// Asked of cpuid itself: Clang 14 does not know the builtin's name for it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         HasF16c();
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::vector<CpuIsa> SupportedCpuIsas() {
  __builtin_cpu_init();
  std::vector<CpuIsa> isas = {CpuIsa::kScalar};
  if (HasAvx2()) isas.push_back(CpuIsa::kAvx2);
  if (HasAvx512()) isas.push_back(CpuIsa::kAvx512);
  if (HasAvx512() && __builtin_cpu_supports("avx512vnni")) {
    isas.push_back(CpuIsa::kAvx512Vnni);
  }
  return isas;
}

}  // namespace qgemm
