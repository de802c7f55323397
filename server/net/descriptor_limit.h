// SPDX-License-Identifier: Apache-2.0
//
// The bound of open files, which the number of connections has to fit in.

#ifndef QGEMM_SERVER_NET_DESCRIPTOR_LIMIT_H_
#define QGEMM_SERVER_NET_DESCRIPTOR_LIMIT_H_

#include <cstdint>

#include "server/net/connection_table.h"

namespace qgemm {

// Raises the process's soft limit of open files to its hard limit.
void RaiseDescriptorLimit();

// The process's soft limit of open files.
int64_t DescriptorLimit();

// Returns limits of connections that leave descriptors for everything else;
// that of one peer keeps its ratio to the total.
ConnectionLimits FitTo(int64_t descriptors, const ConnectionLimits& limits);

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_DESCRIPTOR_LIMIT_H_
