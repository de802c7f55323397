// SPDX-License-Identifier: Apache-2.0
//
// QGEMM_TSAN is defined if ThreadSanitizer instruments the build. It does not
// see into gRPC, so the two functions here announce memory that gRPC carries
// from thread to thread.

#ifndef QGEMM_BASE_TSAN_H_
#define QGEMM_BASE_TSAN_H_

#if defined(__SANITIZE_THREAD__)
#define QGEMM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QGEMM_TSAN 1
#endif
#endif

#ifdef QGEMM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace qgemm {

// Publishes all writes so far to the thread that acquires `address`.
inline void TsanRelease([[maybe_unused]] void* address) {
#ifdef QGEMM_TSAN
  __tsan_release(address);
#endif
}

inline void TsanAcquire([[maybe_unused]] void* address) {
#ifdef QGEMM_TSAN
  __tsan_acquire(address);
#endif
}

}  // namespace qgemm

#endif  // QGEMM_BASE_TSAN_H_
