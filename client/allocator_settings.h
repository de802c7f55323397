// SPDX-License-Identifier: Apache-2.0
//
// Settings of the C library's allocator for programs that send and receive
// operands. Opt-in: they are the process's, not the library's.

#ifndef QGEMM_CLIENT_ALLOCATOR_SETTINGS_H_
#define QGEMM_CLIENT_ALLOCATOR_SETTINGS_H_

namespace qgemm {

// Has blocks of up to 32 MiB, which glibc would map and unmap for each
// operand, come from the heap and stay there when they are freed; a program
// keeps up to 256 MiB of freed memory for it. To be called once, before other
// threads start. Does nothing with another C library.
void KeepFreedOperandMemory();

}  // namespace qgemm

#endif  // QGEMM_CLIENT_ALLOCATOR_SETTINGS_H_
