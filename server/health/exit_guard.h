// SPDX-License-Identifier: Apache-2.0
//
// Ends the process at a set time, whatever hangs then.

#ifndef QGEMM_SERVER_HEALTH_EXIT_GUARD_H_
#define QGEMM_SERVER_HEALTH_EXIT_GUARD_H_

#include "absl/time/time.h"

namespace qgemm {

// Has a thread from its making on, since there may be none to have later.
// For the whole life of a process, of which there is one guard. Thread-safe.
class ExitGuard {
 public:
  ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

  // Ends the process by _exit with `exit_code` when `timeout` has passed; of
  // several calls the last one counts.
  void ExitAfter(absl::Duration timeout, int exit_code);

 private:
  struct State;
  State* const state_;  // never freed: the thread uses it until the end
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_HEALTH_EXIT_GUARD_H_
