// SPDX-License-Identifier: Apache-2.0
//
// What ThreadSanitizer is to leave out of programs that link the transport:
// the distribution's libraries, which are not instrumented, and the code that
// gRPC's headers put into our object files, whose locks are inside those
// libraries. Nothing of ours is named here. Empty in other builds.

#include "base/tsan.h"

#ifdef QGEMM_TSAN

extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

extern "C" const char* __tsan_default_suppressions() {
  return "race:grpc::internal::\n"
         "race:grpc::CompletionQueue::\n"
         "race:google::protobuf::\n";
}

#endif  // QGEMM_TSAN
