// SPDX-License-Identifier: Apache-2.0
//
// x86-64: detection of instruction sets, and a row of microkernel files for
// each. The compiler's builtin reads cpuid and XCR0, so a set whose registers
// the operating system does not save counts as absent. Linux saves AMX tiles
// for processes that ask for it.

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/microkernel_table.h"
#include "kernels/cpu/microkernels/microkernel.h"

namespace qgemm::cpu {
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

// Asked of cpuid itself, as Clang 14 and GCC 12 do not know the builtin's names
// for all of these.
bool ProcessorHasBf16Products() {
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & kAvx512Bf16) != 0;
}

bool ProcessorHasAmx() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  constexpr unsigned kAmxInt8 = 1u << 25;
  constexpr unsigned kAll = kAmxBf16 | kAmxTile | kAmxInt8;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kAll) == kAll;
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

MicrokernelTable Join(std::initializer_list<MicrokernelRows> files,
                      HalfConversions half_conversions) {
  MicrokernelTable table;
  table.half_conversions = half_conversions;
  for (const MicrokernelRows& file : files) {
    table.rows.insert(table.rows.end(), file.rows, file.rows + file.count);
  }
  return table;
}

}  // namespace

std::vector<CpuIsa> SupportedCpuIsas() {
  __builtin_cpu_init();
  std::vector<CpuIsa> isas = {CpuIsa::kScalar};
  if (HasAvx2()) isas.push_back(CpuIsa::kAvx2);
  if (HasAvx512()) isas.push_back(CpuIsa::kAvx512);
  if (HasAvx512() && __builtin_cpu_supports("avx512vnni")) {
    isas.push_back(CpuIsa::kAvx512Vnni);
    if (ProcessorHasBf16Products()) isas.push_back(CpuIsa::kAvx512Bf16);
    if (ProcessorHasAmx() && MayUseTiles()) isas.push_back(CpuIsa::kAmx);
  }
  return isas;
}

MicrokernelTable TableOf(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      break;
    case CpuIsa::kAvx2:
      return Join({W2W3A32Avx2Rows(), W4W5A32Avx2Rows(), W4A8Avx2Rows(),
                   W16A32Avx2Rows(), PanelA32Avx2Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAvx512:
      return Join({QuantA32Avx512Rows(), W4A8Avx2Rows(), W16A32Avx512Rows(),
                   PanelA32Avx512Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAvx512Vnni:
      return Join({QuantA32Avx512Rows(), W4A8Avx512VnniRows(),
                   W16A32Avx512Rows(), PanelA32Avx512Rows()},
                  F16cHalfConversions());
    case CpuIsa::kAvx512Bf16: {
      MicrokernelTable table =
          Join({QuantA32Avx512Rows(), W4A8Avx512VnniRows(), W16A32Avx512Rows(),
                PanelA32Avx512Rows(), QuantABFloat16Avx512Bf16Rows()},
               F16cHalfConversions());
      table.split_row = Avx512SplitRow();
      return table;
    }
    case CpuIsa::kAmx: {
      MicrokernelTable table =
          Join({QuantA32Avx512Rows(), W4A8Avx512VnniRows(), W16A32Avx512Rows(),
                PanelA32Avx512Rows(), QuantABFloat16Avx512Rows(),
                QuantA16AmxRows(), ScaledA16AmxRows(), PanelW4A8AmxRows()},
               F16cHalfConversions());
      table.split_row = Avx512SplitRow();
      return table;
    }
  }
  return Join({QuantA32ScalarRows(), W4A8ScalarRows(), W16A32ScalarRows()},
              ScalarHalfConversions());
}

}  // namespace qgemm::cpu
