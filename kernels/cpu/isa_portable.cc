// SPDX-License-Identifier: Apache-2.0
//
// Detection on processors that have portable microkernels only.

#include "kernels/cpu/isa.h"

namespace qgemm {

std::vector<CpuIsa> SupportedCpuIsas() { return {CpuIsa::kScalar}; }

}  // namespace qgemm
