// SPDX-License-Identifier: Apache-2.0
//
// Tells ThreadSanitizer which of the distribution's libraries were built
// without it: what they call (memmove, epoll_wait) it sees, the locks and
// atomics that order those calls it does not. Nothing of ours is named.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_base.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libprotobuf.so\n";
}
