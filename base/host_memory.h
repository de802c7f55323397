// SPDX-License-Identifier: Apache-2.0
//
// Memory that this process may take: the machine's, and the least of what its
// cgroups allow. Beyond the latter the kernel kills it.

#ifndef QGEMM_BASE_HOST_MEMORY_H_
#define QGEMM_BASE_HOST_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"

namespace qgemm {

// Bytes of physical memory, in use or not.
int64_t HostMemoryBytes();

// The least of the physical memory and the limits of this process's cgroups, of
// either version, from its own up to the root. Reads them anew; for the start
// of a program, not for its hot path.
int64_t MemoryLimitBytes();

// Content of a file; nullopt if it cannot be read.
using FileReader =
    absl::FunctionRef<std::optional<std::string>(const std::string& path)>;

// The least limit that the cgroups of the process set, as `read` shows
// /proc/self/cgroup, /proc/self/mountinfo and the limits' files; nullopt if
// there is none. Lines that cannot be understood count as no limit.
std::optional<int64_t> CgroupMemoryLimit(FileReader read);

}  // namespace qgemm

#endif  // QGEMM_BASE_HOST_MEMORY_H_
