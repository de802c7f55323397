// SPDX-License-Identifier: Apache-2.0
//
// The holders of descriptors: qgemm_holder, over its socket, and systemd, by
// its file descriptor store.

#ifndef QGEMM_SERVER_KEEP_HOLDERS_H_
#define QGEMM_SERVER_KEEP_HOLDERS_H_

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "server/health/systemd_notifier.h"
#include "server/keep/descriptor_holder.h"

namespace qgemm {

// The server's end of a connection to qgemm_holder. Thread-safe. A thread of
// its own looks for a holder that has ended, every
// second, and gives a new one all that was stored.
class HolderClient final : public DescriptorHolder {
 public:
  // `path` is of the holder's socket.
  explicit HolderClient(std::string path);
  ~HolderClient() override;

  // Waits for some seconds for a server that is about to end.
  absl::StatusOr<std::vector<HeldDescriptor>> Claim() override;
  absl::Status Store(const std::string& name, int descriptor) override;
  absl::Status Drop(const std::string& name) override;

 private:
  absl::StatusOr<std::vector<HeldDescriptor>> Connect()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StoreAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Send(absl::string_view word, const std::string& name,
                    int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();

  const std::string path_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  FileDescriptor socket_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, FileDescriptor> stored_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_;
};

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

// systemd as the holder. Thread-safe.
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

#endif  // QGEMM_SERVER_KEEP_HOLDERS_H_
