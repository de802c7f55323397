// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/keep/holders.h"

namespace qgemm {
namespace {

constexpr int kFirstDescriptor = 3;
constexpr int kMostDescriptors = 65536;

absl::Status Sent(bool sent) {
  if (sent) return absl::OkStatus();
  return absl::UnavailableError("systemd does not take datagrams");
}

}  // namespace

absl::StatusOr<std::vector<HeldDescriptor>> TakeListenDescriptors(
    const ListenEnvironment& environment) {
  std::vector<HeldDescriptor> passed;
  if (environment.fds.empty() || environment.pid != absl::StrCat(getpid())) {
    return passed;  // none, or meant for the process that started us
  }
  int count = 0;
  if (!absl::SimpleAtoi(environment.fds, &count) || count < 0 ||
      count > kMostDescriptors) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_FDS = \"", environment.fds,
                     "\" in the environment is no number of descriptors"));
  }
  const std::vector<std::string> names =
      absl::StrSplit(environment.fdnames, ':');
  for (int i = 0; i < count; ++i) {
    const int descriptor = kFirstDescriptor + i;
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LISTEN_FDS = \"", environment.fds,
          "\" in the environment, but descriptor ", descriptor, " is closed"));
    }
    passed.push_back({static_cast<size_t>(i) < names.size() ? names[i] : "",
                      FileDescriptor(descriptor)});
  }
  return passed;
}

absl::StatusOr<std::vector<HeldDescriptor>> SystemdHolder::Claim() {
  MutexLock lock(&mutex_);
  return std::exchange(passed_, {});
}

absl::Status SystemdHolder::Store(const std::string& name, int descriptor) {
  return Sent(systemd_->StoreDescriptor(name, descriptor));
}

absl::Status SystemdHolder::Drop(const std::string& name) {
  return Sent(systemd_->RemoveDescriptor(name));
}

}  // namespace qgemm
