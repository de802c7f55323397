// SPDX-License-Identifier: Apache-2.0
//
// Names of instruction sets; platform_x86.cc and platform_portable.cc detect
// them.

#include "kernels/cpu/isa.h"

namespace qgemm::cpu {

absl::string_view Name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kScalar:
      return "scalar";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Vnni:
      return "avx512vnni";
    case CpuIsa::kAvx512Bf16:
      return "avx512bf16";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "?";
}

std::optional<CpuIsa> ParseCpuIsa(absl::string_view name) {
  for (CpuIsa isa : kCpuIsas) {
    if (Name(isa) == name) return isa;
  }
  return std::nullopt;
}

}  // namespace qgemm::cpu
