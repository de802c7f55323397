// SPDX-License-Identifier: Apache-2.0
//
// The size of the machine's memory, which bounds what the backends may take.

#ifndef QGEMM_BASE_HOST_MEMORY_H_
#define QGEMM_BASE_HOST_MEMORY_H_

#include <unistd.h>

#include <cstdint>

namespace qgemm {

// Bytes of physical memory, in use or not.
inline int64_t HostMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

}  // namespace qgemm

#endif  // QGEMM_BASE_HOST_MEMORY_H_
