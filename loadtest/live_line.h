// SPDX-License-Identifier: Apache-2.0
//
// A line on the terminal that shows a load test while it runs.

#ifndef QGEMM_LOADTEST_LIVE_LINE_H_
#define QGEMM_LOADTEST_LIVE_LINE_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/report/loadtest_report.h"

namespace qgemm::loadtest {

// Not thread-safe.
class LiveLine {
 public:
  // Null shows nothing. A terminal's line is overwritten again and again; a
  // file gets one line after the other.
  LiveLine(std::ostream* out, bool is_terminal)
      : out_(out), is_terminal_(is_terminal) {}

  // A run begins, under this label; empty if there is one.
  void Begin(std::string label);
  // Shows the point about every half second.
  void Show(const SeriesPoint& point);
  // Shows a step that is not measured: "uploading 3 of 224 layers". An empty
  // text removes the line.
  void Say(absl::string_view text);

 private:
  std::ostream* const out_;
  const bool is_terminal_;
  std::string label_;
  int64_t errors_ = 0;
  absl::Duration shown_ = -absl::InfiniteDuration();
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_LIVE_LINE_H_
