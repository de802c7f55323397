// SPDX-License-Identifier: Apache-2.0
//
// Who ends the requests of a launch: the thread that saw the launch end, or
// several others. A decision only; batch_executor.h does it.

#ifndef QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_
#define QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_

#include <algorithm>
#include <cstdint>

namespace qgemm {

// To send a short answer takes some 15 us, to wake a thread about as long.
inline constexpr int64_t kMostAnswersInPlace = 2;
// A megabyte takes some 100 us; what waits for the thread meanwhile loses less
// than the answer would lose by waiting for another.
inline constexpr int64_t kMostAnswerBytesInPlace = int64_t{2} << 20;
inline constexpr int64_t kFewestAnswersATask = 8;

// How many requests a task ends, of `requests` whose answers have
// `answer_bytes` together, with `threads` threads for such tasks; 0: all end in
// place.
inline int64_t AnswersATask(int64_t requests, int64_t answer_bytes,
                            int threads) {
  if (threads == 0) return 0;
  if (requests <= kMostAnswersInPlace &&
      answer_bytes <= kMostAnswerBytesInPlace) {
    return 0;
  }
  const int64_t share = (requests + threads - 1) / threads;
  return std::max(share, kFewestAnswersATask);
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_
