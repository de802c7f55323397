// SPDX-License-Identifier: Apache-2.0

#include "base/clock.h"

namespace qgemm {

absl::Time SystemClock::Now() const {
  static const absl::Duration wall_ahead = absl::Now() - SteadyClock().Now();
  return SteadyClock().Now() + wall_ahead;
}

}  // namespace qgemm
