// SPDX-License-Identifier: Apache-2.0
//
// The bound of operands that have come in part, over all streams: what their
// clients may make the server hold without ever making a request of it.

#ifndef QGEMM_SERVER_RPC_PARTIAL_OPERANDS_H_
#define QGEMM_SERVER_RPC_PARTIAL_OPERANDS_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace qgemm {

// Thread-safe. Must outlive its shares.
class PartialOperands {
 public:
  // What one operand takes; it goes back when the share goes. Move-only.
  class Share {
   public:
    Share() = default;  // of nothing
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (of_ != nullptr) of_->GiveBack(bytes_);
    }

   private:
    friend class PartialOperands;
    Share(PartialOperands* of, int64_t bytes) : of_(of), bytes_(bytes) {}

    PartialOperands* of_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit PartialOperands(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<Share> Take(int64_t bytes);

 private:
  void GiveBack(int64_t bytes);

  const int64_t limit_bytes_;
  Mutex mutex_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_PARTIAL_OPERANDS_H_
