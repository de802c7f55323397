// SPDX-License-Identifier: Apache-2.0
//
// A file descriptor with an owner.

#ifndef QGEMM_BASE_FILE_DESCRIPTOR_H_
#define QGEMM_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace qgemm {

// Closes the descriptor on destruction. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;  // none
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~FileDescriptor() { Reset(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }

  // The caller owns the descriptor from now on.
  int Release() { return std::exchange(fd_, -1); }

  void Reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_FILE_DESCRIPTOR_H_
