// SPDX-License-Identifier: Apache-2.0

#include "base/process_cpu.h"

#include <sys/resource.h>

namespace qgemm {

absl::Duration ProcessCpu() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);  // cannot fail with these arguments
  return absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

}  // namespace qgemm
