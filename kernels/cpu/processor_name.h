// SPDX-License-Identifier: Apache-2.0
//
// What people call this machine's processor.

#ifndef QGEMM_KERNELS_CPU_PROCESSOR_NAME_H_
#define QGEMM_KERNELS_CPU_PROCESSOR_NAME_H_

#include <string>

namespace qgemm {

// The model name that Linux reports, or "unknown processor".
std::string ProcessorName();

}  // namespace qgemm

#endif  // QGEMM_KERNELS_CPU_PROCESSOR_NAME_H_
