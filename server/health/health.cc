// SPDX-License-Identifier: Apache-2.0
//
// The gravest fact first.

#include "server/health/health.h"

#include "absl/strings/str_cat.h"

namespace qgemm {

Health DecideHealth(const HealthFacts& facts) {
  if (!facts.backend.ok()) {
    return {HealthState::kFailed, true, std::string(facts.backend.message())};
  }
  if (facts.oldest_launch > facts.launch_timeout) {
    return {HealthState::kFailed, true,
            absl::StrCat("a launch has made no progress for ",
                         absl::FormatDuration(facts.oldest_launch),
                         "; the limit is ",
                         absl::FormatDuration(facts.launch_timeout),
                         " (--launch_timeout)")};
  }
  if (facts.draining) {
    return {HealthState::kDraining, false, "the server is draining"};
  }
  if (!facts.started) {
    return {HealthState::kStarting, false, "the server is starting"};
  }
  if (!facts.listeners.ok()) {
    return {HealthState::kFailed, false,
            absl::StrCat("a listener does not answer: ",
                         facts.listeners.message())};
  }
  if (!facts.awaited_layers.empty()) {
    return {HealthState::kStarting, false, facts.awaited_layers};
  }
  if (!facts.missing_name.empty()) {
    return {HealthState::kStarting, false,
            absl::StrCat("\"", facts.missing_name,
                         "\" is not loaded yet (--ready_names)")};
  }
  return {HealthState::kServing, false, ""};
}

}  // namespace qgemm
