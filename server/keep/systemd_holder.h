// SPDX-License-Identifier: Apache-2.0
//
// systemd as the holder of descriptors: its file descriptor store.

#ifndef QGEMM_SERVER_KEEP_SYSTEMD_HOLDER_H_
#define QGEMM_SERVER_KEEP_SYSTEMD_HOLDER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/health/systemd_notifier.h"
#include "server/keep/descriptor_holder.h"

namespace qgemm {

// Values of the environment variables by which systemd passes descriptors;
// empty = not set.
struct ListenEnvironment {
  std::string pid;      // LISTEN_PID: the process that they are for
  std::string fds;      // LISTEN_FDS: how many
  std::string fdnames;  // LISTEN_FDNAMES: their names, with colons between
};

// Takes the descriptors that systemd passed to this process, from 3 on. Once.
// Errors: INVALID_ARGUMENT (a variable whose value cannot be right).
absl::StatusOr<std::vector<HeldDescriptor>> TakeListenDescriptors(
    const ListenEnvironment& environment);

// Thread-safe.
class SystemdHolder final : public DescriptorHolder {
 public:
  // `passed` is what TakeListenDescriptors returned. `systemd` must outlive it.
  SystemdHolder(std::vector<HeldDescriptor> passed, SystemdNotifier* systemd)
      : systemd_(systemd), passed_(std::move(passed)) {}

  absl::StatusOr<std::vector<HeldDescriptor>> Claim() override;
  absl::Status Store(const std::string& name, int descriptor) override;
  absl::Status Drop(const std::string& name) override;

 private:
  SystemdNotifier* const systemd_;
  Mutex mutex_;
  std::vector<HeldDescriptor> passed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_SYSTEMD_HOLDER_H_
