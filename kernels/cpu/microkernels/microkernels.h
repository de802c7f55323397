// SPDX-License-Identifier: Apache-2.0
//
// The rows that each file of this folder contributes to the table. Only
// plain declarations: see microkernel.h.

#ifndef QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNELS_H_
#define QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNELS_H_

#include "kernels/cpu/microkernel.h"

namespace qgemm {

MicrokernelRows WqA32ScalarRows();
MicrokernelRows W4A8ScalarRows();
MicrokernelRows W16A32ScalarRows();

MicrokernelRows WqA32Avx2Rows();
MicrokernelRows W4A8Avx2Rows();
MicrokernelRows W16A32Avx2Rows();

MicrokernelRows WqA32Avx512Rows();
MicrokernelRows W16A32Avx512Rows();

MicrokernelRows W4A8Avx512VnniRows();

MicrokernelRows WqABFloat16Avx512Rows();
MicrokernelRows WqA16AmxRows();
SplitRowFunction AmxSplitRow();

HalfConversions ScalarHalfConversions();
HalfConversions F16cHalfConversions();

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_MICROKERNELS_MICROKERNELS_H_
