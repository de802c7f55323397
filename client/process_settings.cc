// SPDX-License-Identifier: Apache-2.0
//
// The glibc parts are left out with other C libraries.

#include "qgemm/process_settings.h"

#include <cstdlib>  // __GLIBC__, if it is that

#include "absl/synchronization/mutex.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace qgemm {

void KeepFreedOperandMemory() {
#ifdef __GLIBC__
  // glibc refuses a threshold above HEAP_MAX_SIZE / 2, which is this.
  constexpr int kMapAboveBytes = 32 << 20;
  constexpr int kKeepBytes = 256 << 20;
  mallopt(M_MMAP_THRESHOLD, kMapAboveBytes);
  mallopt(M_TRIM_THRESHOLD, kKeepBytes);
#endif
}

void SkipLockOrderChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace qgemm
