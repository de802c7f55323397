// SPDX-License-Identifier: Apache-2.0
//
// Detection on x86-64. The compiler's builtin reads cpuid and XCR0, so a set
// whose registers the operating system does not save counts as absent. Linux
// saves AMX tiles for processes that ask for it.

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

// Clang 14 and GCC 12 do not know the builtin's names for these.
bool ProcessorHasAmxBf16() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
}

// False too where the kernel is older than AMX.
bool MayUseTiles() {
#ifdef __linux__
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

std::vector<CpuIsa> SupportedCpuIsas() {
  __builtin_cpu_init();
  std::vector<CpuIsa> isas = {CpuIsa::kScalar};
  if (HasAvx2()) isas.push_back(CpuIsa::kAvx2);
  if (HasAvx512()) isas.push_back(CpuIsa::kAvx512);
  if (HasAvx512() && __builtin_cpu_supports("avx512vnni")) {
    isas.push_back(CpuIsa::kAvx512Vnni);
    if (ProcessorHasAmxBf16() && MayUseTiles()) isas.push_back(CpuIsa::kAmx);
  }
  return isas;
}

}  // namespace qgemm
