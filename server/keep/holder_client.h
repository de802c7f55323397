// SPDX-License-Identifier: Apache-2.0
//
// The server's end of a connection to qgemm_holder.

#ifndef QGEMM_SERVER_KEEP_HOLDER_CLIENT_H_
#define QGEMM_SERVER_KEEP_HOLDER_CLIENT_H_

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/keep/descriptor_holder.h"

namespace qgemm {

// Thread-safe. A thread of its own looks for a holder that has ended, every
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

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_HOLDER_CLIENT_H_
