// SPDX-License-Identifier: Apache-2.0
//
// Compares the answers of a load test with each other as they come, since the
// same request gives the same bits every time, and one of each with fp64
// afterwards, element by element.

#ifndef QGEMM_LOADTEST_VERIFY_VERIFY_H_
#define QGEMM_LOADTEST_VERIFY_VERIFY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "kernels/matrix/canonical_weights.h"
#include "kernels/matrix/types.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Answers that are checked: none, each sender's first and one in 16 after it,
// or every one.
enum class VerifyMode : uint8_t { kNone, kSample, kAll };

// "none", "sample", "all".
absl::string_view Name(VerifyMode mode);

// Compares answers by size and CRC-32C, which tells any single flipped bit.
// Thread-safe.
class AnswerChecker {
 public:
  // Keeps the first answer to each of `messages` messages, as long as all of
  // them take at most `kept_bytes`.
  AnswerChecker(VerifyMode mode, int messages, int64_t kept_bytes);

  // True if it checks a sender's answer of that number, counted from 0.
  bool Wants(int64_t sequence) const;

  // The answer to a message, in pieces, if it wants it.
  void OnAnswer(int message, int64_t sequence,
                absl::Span<const absl::string_view> c);

  // Findings so far.
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

// An answer and its request.
struct AnsweredRequest {
  std::string name;  // for messages: "input 3 of m=16"
  int64_t m = 0;
  std::vector<uint8_t> a;                // [m, k] of the signature's a_type
  std::shared_ptr<const std::string> c;  // [m, n] of its c_type
};

// Bound on the comparisons of a layer.
struct Fp64Budget {
  double multiply_adds = 0;  // at most, by sampling columns; 0: all
  uint64_t seed = 0;         // of the sampled columns
};

// Adds its findings to `report`: elements, the worst error, the first fault.
void CheckAgainstFp64(const CanonicalWeights& weights,
                      const MatmulSignature& signature,
                      const std::vector<AnsweredRequest>& answers,
                      const Fp64Budget& budget, VerifyReport* report);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_VERIFY_VERIFY_H_
