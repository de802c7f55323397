// SPDX-License-Identifier: Apache-2.0
//
// The end of work that is done at every server: loads, registrations, unloads.

#ifndef QGEMM_CLIENT_EVERY_SERVER_H_
#define QGEMM_CLIENT_EVERY_SERVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace qgemm {

// The end at one server.
struct ServerEnd {
  std::string server;  // its address
  absl::Status status;
};

// OK if all are. Of one server, its status. Of several, an error with the code
// and the time to retry of the first that failed, which names all that did.
absl::Status JoinEnds(absl::Span<const ServerEnd> ends);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_EVERY_SERVER_H_
