// SPDX-License-Identifier: Apache-2.0
//
// Plans of several runs: --sweep, a run for each value of one flag, and
// --find_peak, a search for the highest rate that holds an --slo. Decisions
// only.

#ifndef QGEMM_LOADTEST_SEARCH_H_
#define QGEMM_LOADTEST_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm::loadtest {

struct LatencyBound {
  std::string name;    // "p99"
  double percent = 0;  // above 0, at most 100
  absl::Duration limit;
};

// All of them must hold.
using Slo = std::vector<LatencyBound>;

// "p99=500us,p99.9=2ms"; empty text: no bound.
// Errors: INVALID_ARGUMENT that names the bound and what is allowed.
absl::StatusOr<Slo> ParseSlo(absl::string_view text);

enum class SweptFlag : uint8_t { kRate, kConcurrency, kM };

struct Sweep {
  SweptFlag flag = SweptFlag::kRate;
  std::vector<std::string> values;  // texts of the flag

  // "rate=200".
  std::string Label(size_t point) const;
};

// "rate=100,200,400", "concurrency=1,2,4" or "m=1,16,64"; ranges as in
// "rate=1000..8000/8" are that many values, evenly on a log scale, rounded to
// three digits. Empty text: no values. The values themselves are not checked.
// Errors: INVALID_ARGUMENT that says what is allowed.
absl::StatusOr<Sweep> ParseSweep(absl::string_view text);

struct PeakSearchOptions {
  double first_rate = 1000;   // requests/s of the first run
  double lowest_rate = 1;     // below it, the search gives up
  double highest_rate = 1e7;  // the search goes no further
  double resolution = 0.05;   // (fails - holds) / holds at its end
  // Each at a rate lower by the resolution, then twice, four times that.
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

  // The next run; nullopt once the search has ended.
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
  double confirm_step_;  // share by which the next attempt is lower
  int confirm_attempts_left_;
  bool ended_ = false;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_SEARCH_H_
