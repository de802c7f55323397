// SPDX-License-Identifier: Apache-2.0
//
// Asks the system whether a listen address is free. gRPC would report a
// taken port without the reason, and would take over a Unix socket that
// another server listens at.

#ifndef QGEMM_SERVER_LISTEN_PROBE_H_
#define QGEMM_SERVER_LISTEN_PROBE_H_

#include "absl/status/status.h"
#include "server/listen_address.h"

namespace qgemm {

// OK if a socket can be bound there. A Unix socket file at which nobody
// listens is removed. Errors: FAILED_PRECONDITION names the address and the
// system's reason. `address` has a numeric host.
absl::Status CheckFree(const ListenAddress& address);

}  // namespace qgemm

#endif  // QGEMM_SERVER_LISTEN_PROBE_H_
