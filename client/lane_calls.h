// SPDX-License-Identifier: Apache-2.0
//
// Gemms and Runs by a client's lane, with their retries.

#ifndef QGEMM_CLIENT_LANE_CALLS_H_
#define QGEMM_CLIENT_LANE_CALLS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "client/call_engine.h"
#include "client/lane.h"
#include "client/lane_keeper.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm {

// The ends of calls that the lane makes; nullopt: the call goes by gRPC, and
// what it lends was not released. Both must outlive it. Thread-safe.
class LaneCalls {
 public:
  LaneCalls(LaneUse use, const LaneKeeper* keeper, CallEngine* engine)
      : use_(use), keeper_(*keeper), engine_(*engine) {}

  std::optional<absl::StatusOr<GemmResult>> Gemm(const GemmRequest& request);
  std::optional<absl::StatusOr<RunResult>> Run(const RunRequest& request);

 private:
  // Calls of this thread may go by the lane.
  bool IsInUse() const;
  // Repeats the call as the retry policy says. `answered` makes the result of
  // an outcome that is OK.
  template <typename Result, typename Answered>
  std::optional<absl::StatusOr<Result>> Make(const LaneWork& work,
                                             const Answered& answered);
  // The outcome of one attempt.
  LaneOutcome Attempt(const LaneWork& work);

  const LaneUse use_;
  const LaneKeeper& keeper_;
  CallEngine& engine_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_CALLS_H_
