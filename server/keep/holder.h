// SPDX-License-Identifier: Apache-2.0
//
// The loop of qgemm_holder: connections of servers, and what it holds.

#ifndef QGEMM_SERVER_KEEP_HOLDER_H_
#define QGEMM_SERVER_KEEP_HOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/keep/held_descriptors.h"

namespace qgemm {

// For one thread.
class Holder {
 public:
  // Listens at the path, which is replaced if it is a socket that nobody
  // listens at; its mode is 0600. `clock` must outlive it. Errors:
  // INVALID_ARGUMENT (the path), FAILED_PRECONDITION (somebody listens there),
  // INTERNAL.
  static absl::StatusOr<Holder> Listen(const std::string& path,
                                       absl::Duration hold, const Clock* clock);

  // Serves what has come, and waits for up to `at_most` if nothing has.
  void ServeOnce(absl::Duration at_most);

  size_t held() const { return table_->held().size(); }

 private:
  Holder(FileDescriptor listener, absl::Duration hold, const Clock* clock)
      : listener_(std::move(listener)),
        clock_(clock),
        table_(std::make_unique<HeldDescriptors>(hold)) {}

  void Accept();
  // False once the connection has ended.
  bool Serve(int connection);
  bool AnswerClaim(int connection);

  FileDescriptor listener_;
  const Clock* clock_;
  std::unique_ptr<HeldDescriptors> table_;
  std::vector<FileDescriptor> connections_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_HOLDER_H_
