// SPDX-License-Identifier: Apache-2.0
//
// A line on the terminal that shows a load test while it runs.

#ifndef QGEMM_LOADTEST_LIVE_LINE_H_
#define QGEMM_LOADTEST_LIVE_LINE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "loadtest/report/run_result.h"

namespace qgemm::loadtest {

// Text of the line for the last interval.
std::string FormatLive(const SeriesPoint& point, absl::string_view label,
                       int64_t errors);

// A terminal's line is overwritten again and again; a file gets one line after
// the other.
enum class LiveStyle : uint8_t { kTerminal, kFile };

// Not thread-safe.
class LiveLine {
 public:
  using Write = std::function<void(absl::string_view)>;

  // An empty `write` shows nothing.
  LiveLine(Write write, LiveStyle style)
      : write_(std::move(write)), style_(style) {}

  // A run begins, under this label; empty if there is one.
  void Begin(std::string label);
  // Shows the point about every half second.
  void Show(const SeriesPoint& point);
  // Shows a step that is not measured: "uploading 3 of 224 layers".
  void Say(absl::string_view step);
  // Removes the line.
  void Clear();

 private:
  void Put(absl::string_view text);

  const Write write_;
  const LiveStyle style_;
  std::string label_;
  int64_t errors_ = 0;
  absl::Duration shown_ = -absl::InfiniteDuration();
  size_t width_ = 0;  // of the line shown
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_LIVE_LINE_H_
