// SPDX-License-Identifier: Apache-2.0
//
// Whoever holds copies of the server's descriptors, so that what they stand for
// outlives the server: systemd, or qgemm_holder.

#ifndef QGEMM_SERVER_KEEP_DESCRIPTOR_HOLDER_H_
#define QGEMM_SERVER_KEEP_DESCRIPTOR_HOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace qgemm {

struct HeldDescriptor {
  std::string name;
  FileDescriptor descriptor;
};

// Thread-safe. Every call waits for at most some seconds.
class DescriptorHolder {
 public:
  virtual ~DescriptorHolder() = default;

  // Copies of what the last server left; the holder keeps its own until they
  // are dropped. Once, before the other calls. Errors: UNAVAILABLE (no holder,
  // or another server uses it), PERMISSION_DENIED (another user's).
  virtual absl::StatusOr<std::vector<HeldDescriptor>> Claim() = 0;

  // Gives the holder a copy, by a name that has none yet. Errors: UNAVAILABLE.
  virtual absl::Status Store(const std::string& name, int descriptor) = 0;

  // The holder closes its copy, if it has one. Errors: UNAVAILABLE.
  virtual absl::Status Drop(const std::string& name) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_DESCRIPTOR_HOLDER_H_
