// SPDX-License-Identifier: Apache-2.0
//
// One line of a terminal that shows how far an upload is and how fast.

#ifndef QGEMM_CLIENT_CLI_PROGRESS_BAR_H_
#define QGEMM_CLIENT_CLI_PROGRESS_BAR_H_

#include <string>

#include "absl/time/time.h"
#include "qgemm/weights.h"

namespace qgemm {

// "[=====>    ]  52%  16.0 MiB of 31.0 MiB  210.4 MiB/s".
std::string FormatProgress(const LoadProgress& progress,
                           absl::Duration elapsed);

// Draws on stderr if that is a terminal, else stays silent. Not thread-safe.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Ends the line.
  ~ProgressBar();

  void Update(const LoadProgress& progress);

 private:
  const bool on_terminal_;
  absl::Time start_;
  absl::Time last_drawn_ = absl::InfinitePast();
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_PROGRESS_BAR_H_
