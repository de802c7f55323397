// SPDX-License-Identifier: Apache-2.0
//
// Threads that copy long operands from messages into staging: such a copy would
// hold up the other calls of a completion queue.

#ifndef QGEMM_SERVER_RPC_OPERAND_COPIERS_H_
#define QGEMM_SERVER_RPC_OPERAND_COPIERS_H_

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/worker_pool.h"

namespace qgemm {

// A copy of this size is left to the copiers: it takes some 200 us, twice the
// whole time of a decode request. Shorter copies are over before another thread
// would have begun with them.
inline constexpr int64_t kLongCopyBytes = int64_t{2} << 20;
// With so many copies waiting, a queue's thread copies a unary call's operand
// itself and takes no more calls meanwhile: a request that waits for its copy
// holds its message's memory and is in no bound yet. A stream has one message
// in hand at a time, and --max_streams bounds them.
inline constexpr int64_t kMostWaitingCopies = 4;

// Runs copies in the order of Submit. Thread-safe. The destructor runs all that
// are submitted.
class OperandCopiers {
 public:
  void Submit(absl::AnyInvocable<void()> copy) {
    workers_.Submit(std::move(copy));
  }

  // The number of copies that no thread has begun.
  int64_t waiting() const { return workers_.waiting(); }

 private:
  static constexpr int kThreads = 2;

  WorkerPool workers_{kThreads};
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_OPERAND_COPIERS_H_
