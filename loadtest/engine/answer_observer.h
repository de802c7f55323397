// SPDX-License-Identifier: Apache-2.0
//
// Who looks at answers while a load test runs.

#ifndef QGEMM_LOADTEST_ENGINE_ANSWER_OBSERVER_H_
#define QGEMM_LOADTEST_ENGINE_ANSWER_OBSERVER_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace qgemm {

// Thread-safe. Called outside the measured latency.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // An answer to message number `message`: C in pieces, borrowed for the call.
  // `sequence` counts the answers of one lane from 0.
  virtual void OnAnswer(int message, int64_t sequence,
                        absl::Span<const absl::string_view> c) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_ANSWER_OBSERVER_H_
