// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that go with a message over a Unix socket (SCM_RIGHTS).

#ifndef QGEMM_BASE_PASSED_DESCRIPTORS_H_
#define QGEMM_BASE_PASSED_DESCRIPTORS_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "absl/types/span.h"
#include "base/check.h"

namespace qgemm {

// Memory for one message's descriptors; must outlive the sendmsg.
class PassedDescriptors {
 public:
  static constexpr size_t kMost = 4;

  // Adds the descriptors, kMost at most and perhaps none, to the message.
  void AddTo(msghdr* message, absl::Span<const int> descriptors) {
    CHECK_LE(descriptors.size(), kMost);
    if (descriptors.empty()) return;
    const size_t size = descriptors.size() * sizeof(int);
    message->msg_control = control_;
    message->msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }

 private:
  alignas(cmsghdr) char control_[CMSG_SPACE(kMost * sizeof(int))] = {};
};

}  // namespace qgemm

#endif  // QGEMM_BASE_PASSED_DESCRIPTORS_H_
