// SPDX-License-Identifier: Apache-2.0
//
// Compares the answers of a load test with each other as they come: the same
// request gives the same bits every time. What they should be, fp64 says
// afterwards (fp64_check.h).

#ifndef QGEMM_LOADTEST_VERIFY_ANSWER_CHECKER_H_
#define QGEMM_LOADTEST_VERIFY_ANSWER_CHECKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "loadtest/engine/answer_observer.h"
#include "loadtest/options.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm {

// kSample looks at each lane's first answer and one in 16 after it, kAll at
// every one. Answers are compared by size and CRC-32C, which tells any single
// flipped bit, and byte by byte with those that are kept. Thread-safe.
class AnswerChecker final : public AnswerObserver {
 public:
  // Keeps the first answer to each of `messages` messages, as long as all of
  // them take at most `kept_bytes`.
  AnswerChecker(VerifyMode mode, int messages, int64_t kept_bytes);

  void OnAnswer(int message, int64_t sequence,
                absl::Span<const absl::string_view> c) override;

  // What was found so far.
  VerifyReport Report() const;

  // The first answer to a message; null if there was none, or no room.
  std::shared_ptr<const std::string> Kept(int message) const;

 private:
  struct First {
    bool seen = false;
    int64_t bytes = 0;
    uint32_t crc32c = 0;
    std::shared_ptr<const std::string> kept;  // the string never changes
  };

  const VerifyMode mode_;
  mutable Mutex mutex_;
  int64_t room_bytes_ ABSL_GUARDED_BY(mutex_);
  std::vector<First> first_ ABSL_GUARDED_BY(mutex_);  // by message
  VerifyReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_VERIFY_ANSWER_CHECKER_H_
