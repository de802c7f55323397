// SPDX-License-Identifier: Apache-2.0
//
// The highest rate that holds an SLO, found by runs whose outcome is told one
// after the other. Decisions only: who runs them is in load_test.h.

#ifndef QGEMM_LOADTEST_PEAK_SEARCH_H_
#define QGEMM_LOADTEST_PEAK_SEARCH_H_

#include <optional>

namespace qgemm {

struct PeakSearchOptions {
  double first_rate = 1000;   // requests/s of the first run
  double lowest_rate = 1;     // below it, the search gives up
  double highest_rate = 1e7;  // it goes no further
  double resolution = 0.05;   // (fails - holds) / holds when it is content
  // Each at a rate lower by the resolution, then twice, four times as much.
  int confirm_attempts = 5;
};

// Doubles the rate until it fails (or halves it until it holds), bisects, and
// confirms by a longer run. Not thread-safe.
class PeakSearch {
 public:
  struct Step {
    double rate;
    bool confirming;  // a longer run: its outcome is the answer
  };

  explicit PeakSearch(const PeakSearchOptions& options);

  // The next run; nothing once the search has ended.
  std::optional<Step> Next() const;
  // The outcome of that run.
  void Tell(bool held);

  // The highest rate that held; 0 if none did.
  double peak() const { return confirmed_ > 0 ? confirmed_ : holds_; }
  bool confirmed() const { return confirmed_ > 0; }

 private:
  double NextRate() const;
  bool IsNarrow() const;

  const PeakSearchOptions options_;
  double holds_ = 0;            // the highest rate that held; 0: none yet
  double fails_ = 0;            // the lowest that did not; 0: none yet
  double confirming_rate_ = 0;  // 0: not there yet
  double confirmed_ = 0;
  double confirm_step_;  // how much lower the next attempt is, as a share
  int confirm_attempts_left_;
  bool ended_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_PEAK_SEARCH_H_
