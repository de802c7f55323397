// SPDX-License-Identifier: Apache-2.0
//
// The processor time of the running process. Wall-clock time is in clock.h.

#ifndef QGEMM_BASE_PROCESS_CPU_H_
#define QGEMM_BASE_PROCESS_CPU_H_

#include "absl/time/time.h"

namespace qgemm {

// User and system time of all threads since the process began, those that have
// ended included. Never falls.
absl::Duration ProcessCpu();

}  // namespace qgemm

#endif  // QGEMM_BASE_PROCESS_CPU_H_
