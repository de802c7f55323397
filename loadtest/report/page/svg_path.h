// SPDX-License-Identifier: Apache-2.0
//
// Curves as SVG path data. Long ones are thinned without a visible change:
// of each pixel column the first, lowest, highest and last point stay.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_SVG_PATH_H_
#define QGEMM_LOADTEST_REPORT_PAGE_SVG_PATH_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "loadtest/report/page/label_placer.h"

namespace qgemm {

// The corners of steps that go from each spot horizontally to the next. Spots
// whose y is not finite are gaps, here and below.
std::vector<Spot> StepCorners(absl::Span<const Spot> spots);

std::vector<Spot> Thinned(absl::Span<const Spot> spots);

// Straight lines from spot to spot; a spot between gaps becomes a dot.
std::string LinePath(absl::Span<const Spot> spots);

// The closed area between two curves over the same x.
std::string AreaPath(absl::Span<const Spot> low, absl::Span<const Spot> high);

// Spots along those lines, `pitch_px` apart.
std::vector<Spot> AlongLine(absl::Span<const Spot> spots, double pitch_px);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_SVG_PATH_H_
