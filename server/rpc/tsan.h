// SPDX-License-Identifier: Apache-2.0
//
// QGEMM_TSAN is defined if ThreadSanitizer instruments the build.

#ifndef QGEMM_SERVER_RPC_TSAN_H_
#define QGEMM_SERVER_RPC_TSAN_H_

#if defined(__SANITIZE_THREAD__)
#define QGEMM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QGEMM_TSAN 1
#endif
#endif

#endif  // QGEMM_SERVER_RPC_TSAN_H_
