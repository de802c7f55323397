// SPDX-License-Identifier: Apache-2.0
//
// Peaks: the most that multiply-adds of an instruction set do in a second.

#ifndef QGEMM_BENCH_MULTIPLY_PEAK_H_
#define QGEMM_BENCH_MULTIPLY_PEAK_H_

#include <optional>

#include "bench/measurer.h"
#include "kernels/cpu/isa.h"

namespace qgemm {

// Multiplies in registers on `threads` threads, by the instructions that the
// microkernels of `isa` use; nullopt for the scalar set.
std::optional<MultiplyPeaks> MeasureMultiplyPeaks(cpu::CpuIsa isa, int threads);

}  // namespace qgemm

#endif  // QGEMM_BENCH_MULTIPLY_PEAK_H_
