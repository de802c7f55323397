// SPDX-License-Identifier: Apache-2.0
//
// Settings for programs that send and receive operands. Opt-in: they change
// the process, not the library. Call them once, before other threads start.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_PROCESS_SETTINGS_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_PROCESS_SETTINGS_H_

namespace qgemm {

// Makes glibc take blocks of up to 32 MiB, which it would map and unmap for
// each operand, from the heap and keep up to 256 MiB of freed memory there.
// Does nothing with another C library.
void KeepFreedOperandMemory();

// Stops Abseil's mutexes, which gRPC locks some dozens of times a call, from
// checking the order in which they are taken. A build of Abseil without NDEBUG,
// as distributions have it, checks under one lock for the whole process: a
// quarter of the time of a server of small calls on 16 cores.
void SkipLockOrderChecks();

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_PROCESS_SETTINGS_H_
