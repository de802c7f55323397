// SPDX-License-Identifier: Apache-2.0
//
// Settings for programs that send and receive operands. Opt-in: they are the
// process's, not the library's. To be called once, before other threads start.

#ifndef QGEMM_CLIENT_PROCESS_SETTINGS_H_
#define QGEMM_CLIENT_PROCESS_SETTINGS_H_

namespace qgemm {

// Has blocks of up to 32 MiB, which glibc would map and unmap for each
// operand, come from the heap and stay there when they are freed; a program
// keeps up to 256 MiB of freed memory for it. Does nothing with another C
// library.
void KeepFreedOperandMemory();

// Has Abseil's mutexes, which gRPC locks some dozens of times a call, not watch
// the order in which they are taken. A build of Abseil without NDEBUG, as
// distributions have it, watches, under one lock for the whole process: a
// quarter of the time of a server of small calls on 16 cores.
void SkipLockOrderChecks();

}  // namespace qgemm

#endif  // QGEMM_CLIENT_PROCESS_SETTINGS_H_
