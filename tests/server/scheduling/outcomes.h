// SPDX-License-Identifier: Apache-2.0
//
// Records the end of each request: its number, its status, how often.

#ifndef QGEMM_TESTS_SERVER_SCHEDULING_OUTCOMES_H_
#define QGEMM_TESTS_SERVER_SCHEDULING_OUTCOMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/scheduling/gemm_request.h"

namespace qgemm {

struct Outcome {
  absl::Status status;
  GemmTimings timings;
};

// Collects the ends of requests that are numbered by the test. Thread-safe;
// must outlive the requests.
class Outcomes {
 public:
  // Returns a `done` that records the end of request `number`.
  AdmittedRequest::Done Recorder(int64_t number) {
    return [this, number](absl::Status status, const GemmTimings& timings,
                          std::unique_ptr<AdmittedRequest>) {
      MutexLock lock(&mutex_);
      by_number_[number].push_back({std::move(status), timings});
      ++count_;
      changed_.SignalAll();
    };
  }

  // Blocks until `count` requests have ended in all.
  void WaitFor(int64_t count) {
    MutexLock lock(&mutex_);
    while (count_ < count) changed_.Wait(&mutex_);
  }

  // Every end of request `number`; there should be one.
  std::vector<Outcome> Of(int64_t number) const {
    MutexLock lock(&mutex_);
    const auto found = by_number_.find(number);
    return found == by_number_.end() ? std::vector<Outcome>() : found->second;
  }

  // The code of a request that ended once, else kUnknown.
  absl::StatusCode CodeOf(int64_t number) const {
    const std::vector<Outcome> ends = Of(number);
    return ends.size() == 1 ? ends.front().status.code()
                            : absl::StatusCode::kUnknown;
  }

  int64_t count() const {
    MutexLock lock(&mutex_);
    return count_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, std::vector<Outcome>> by_number_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_SCHEDULING_OUTCOMES_H_
