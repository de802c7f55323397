// SPDX-License-Identifier: Apache-2.0
//
// Tells scripts which ports a server took.

#ifndef QGEMM_SERVER_PORT_FILE_H_
#define QGEMM_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace qgemm {

// Writes one port a line. Whoever sees the file sees it whole: it is written
// beside `path` and renamed. UNKNOWN names the step, the path and the
// system's reason.
absl::Status WritePortFile(const std::string& path,
                           absl::Span<const int> ports);

}  // namespace qgemm

#endif  // QGEMM_SERVER_PORT_FILE_H_
