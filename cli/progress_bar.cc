// SPDX-License-Identifier: Apache-2.0

#include "cli/progress_bar.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/output.h"

namespace qgemm {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);

}  // namespace

std::string FormatProgress(const LoadProgress& progress,
                           absl::Duration elapsed) {
  constexpr int kWidth = 30;
  const double done = progress.total_bytes > 0
                          ? static_cast<double>(progress.sent_bytes) /
                                static_cast<double>(progress.total_bytes)
                          : 1.0;
  const int filled = static_cast<int>(done * kWidth);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const int64_t rate =
      seconds > 0 ? static_cast<int64_t>(progress.sent_bytes / seconds) : 0;
  return absl::StrFormat("[%s] %3d%%  %s of %s  %s/s", bar,
                         static_cast<int>(done * 100),
                         FormatBytes(progress.sent_bytes),
                         FormatBytes(progress.total_bytes), FormatBytes(rate));
}

ProgressBar::ProgressBar()
    : on_terminal_(isatty(STDERR_FILENO) == 1), start_(absl::Now()) {}

ProgressBar::~ProgressBar() {
  if (on_terminal_ && last_drawn_ != absl::InfinitePast()) {
    std::fputc('\n', stderr);
  }
}

void ProgressBar::Update(const LoadProgress& progress) {
  if (!on_terminal_) return;
  const absl::Time now = absl::Now();
  // Hashing comes before the first byte and is not part of the rate.
  if (progress.sent_bytes == 0) start_ = now;
  if (progress.sent_bytes < progress.total_bytes &&
      now - last_drawn_ < kRedrawInterval) {
    return;
  }
  last_drawn_ = now;
  const std::string line = FormatProgress(progress, now - start_);
  std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
  std::fflush(stderr);
}

}  // namespace qgemm
