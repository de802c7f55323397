// SPDX-License-Identifier: Apache-2.0
//
// Ends batches on a thread that looks for requests anyway, in the place of a
// thread of the backend's: what that thread has just written, and soon writes
// again, does not move between processors.

#ifndef QGEMM_KERNELS_MATRIX_COMPLETION_POLLER_H_
#define QGEMM_KERNELS_MATRIX_COMPLETION_POLLER_H_

#include <cstdint>

namespace qgemm {

enum class PollResult : uint8_t {
  kNothing,   // no batch that the caller should look for
  kUnderWay,  // one has not ended
  kEnded,     // one has, and its completion has run
};

// Lives as long as its backend. Used by one thread at a time.
class CompletionPoller {
 public:
  virtual ~CompletionPoller() = default;

  // The calling thread ends short batches from here on, those alone that it
  // finds by Poll, until Leave. It must call Poll often.
  virtual void Attend() = 0;
  // The backend's own threads end all batches again. Idempotent.
  virtual void Leave() = 0;

  // Runs the completion of the oldest batch if that has ended. Does not wait.
  virtual PollResult Poll() = 0;
};

}  // namespace qgemm

#endif  // QGEMM_KERNELS_MATRIX_COMPLETION_POLLER_H_
