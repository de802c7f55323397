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

namespace qgemm {

// What the line says of the last second or so.
std::string FormatLive(const SeriesPoint& point, absl::string_view label,
                       int64_t errors);

// Where the line is shown: a terminal's is written over again and again, into a
// file one follows the other.
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
  // About every half second shows what came since.
  void Show(const SeriesPoint& point);
  // A step of what is not measured: "uploading 3 of 224 layers".
  void Say(absl::string_view step);
  // Takes the line away.
  void Clear();

 private:
  void Put(absl::string_view text);

  const Write write_;
  const LiveStyle style_;
  std::string label_;
  int64_t errors_ = 0;
  absl::Duration shown_ = -absl::InfiniteDuration();
  size_t width_ = 0;  // of what stands there
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_LIVE_LINE_H_
