// SPDX-License-Identifier: Apache-2.0

#include "loadtest/peak_search.h"

#include <algorithm>
#include <cmath>

namespace qgemm {

PeakSearch::PeakSearch(const PeakSearchOptions& options)
    : options_(options),
      confirm_step_(options.resolution),
      confirm_attempts_left_(options.confirm_attempts) {}

bool PeakSearch::IsNarrow() const {
  if (holds_ >= options_.highest_rate) return true;
  return holds_ > 0 && fails_ > 0 &&
         fails_ - holds_ <= options_.resolution * holds_;
}

double PeakSearch::NextRate() const {
  if (confirming_rate_ > 0) return confirming_rate_;
  if (holds_ == 0 && fails_ == 0) return options_.first_rate;
  if (fails_ == 0) return std::min(2 * holds_, options_.highest_rate);
  if (holds_ == 0) return fails_ / 2;
  return std::sqrt(holds_ * fails_);
}

std::optional<PeakSearch::Step> PeakSearch::Next() const {
  if (ended_) return std::nullopt;
  return Step{NextRate(), confirming_rate_ > 0};
}

void PeakSearch::Tell(bool held) {
  if (confirming_rate_ > 0) {
    if (held) confirmed_ = confirming_rate_;
    ended_ = held || --confirm_attempts_left_ == 0;
    confirming_rate_ /= 1 + confirm_step_;
    confirm_step_ *= 2;
    return;
  }
  const double rate = NextRate();
  if (held) {
    holds_ = std::max(holds_, rate);
  } else {
    fails_ = rate;
  }
  if (IsNarrow()) confirming_rate_ = holds_;
  if (holds_ == 0 && fails_ / 2 < options_.lowest_rate) ended_ = true;
}

}  // namespace qgemm
