// SPDX-License-Identifier: Apache-2.0
//
// The gaps between arrivals of a renewal process with one arrival a unit of
// time on average. What a unit is, arrivals.h says.

#ifndef QGEMM_LOADTEST_SCHEDULE_UNIT_GAPS_H_
#define QGEMM_LOADTEST_SCHEDULE_UNIT_GAPS_H_

#include <cstdint>

#include "loadtest/random/random_bits.h"
#include "loadtest/schedule/arrival_process.h"

namespace qgemm {

// Independent gaps, each of mean 1, that the process and the seed decide.
// Not thread-safe; copies go on alike.
class UnitGaps {
 public:
  // Of kind kConstant, kPoisson or kGamma.
  UnitGaps(const ArrivalProcess& process, uint64_t seed);

  // From the start to the first arrival, to be called first. The process is
  // in equilibrium, as though it had run for ever: the mean number of arrivals
  // until t is t, whatever the kind. Constant gaps start with the mean, 0.5.
  // Source: Cox, Renewal Theory (1962), sections 2.2 and 5.2.
  double First();

  // From one arrival to the next.
  double Next();

 private:
  // What drawing a gamma variable takes of its shape, 1 or more.
  struct GammaConstants {
    explicit GammaConstants(double shape);
    double d;
    double c;
  };

  double GammaGap();
  double FirstGammaGap();
  double Exponential();
  double Normal();
  // Of scale 1 and thus of its shape's mean.
  double Gamma(const GammaConstants& constants);

  const ArrivalKind kind_;
  const double scale_;              // kGamma: the gaps', 1 / shape
  const GammaConstants constants_;  // of the shape, or of 1 + it if below 1
  RandomBits random_;
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_SCHEDULE_UNIT_GAPS_H_
