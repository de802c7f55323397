// SPDX-License-Identifier: Apache-2.0
//
// Who ends the requests of a launch: the thread that saw the launch end, or
// their homes. Decisions only; batch_executor.h does it.

#ifndef QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_
#define QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_

#include <cstdint>

namespace qgemm {

// To send a short answer takes some 15 us, to wake a thread about as long.
inline constexpr int64_t kMostAnswersInPlace = 2;
// A megabyte takes some 100 us; what waits for the thread meanwhile loses less
// than the answer would lose by waiting for another.
inline constexpr int64_t kMostAnswerBytesInPlace = int64_t{2} << 20;
// Homes that have several threads share what is cut this small.
inline constexpr int64_t kMostAnswersATask = 8;

// Whether the thread that saw a launch end ends its requests, whose answers
// have `answer_bytes` together.
inline bool AnswersInPlace(int64_t requests, int64_t answer_bytes) {
  return requests <= kMostAnswersInPlace &&
         answer_bytes <= kMostAnswerBytesInPlace;
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_EXECUTION_ANSWER_SPLIT_H_
