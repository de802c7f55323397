// SPDX-License-Identifier: Apache-2.0
//
// Runs senders for a while and gathers their counts: totals, and a time
// series.

#ifndef QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
#define QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "loadtest/engine/transport.h"
#include "loadtest/report/loadtest_report.h"
#include "loadtest/schedule/arrivals.h"

namespace qgemm::loadtest {

// Faults that the run injects.
struct Disturbances {
  double cancel_share = 0;  // of requests that are cancelled, 0 to 1
  // After a time uniform in [0, cancel_within].
  absl::Duration cancel_within = absl::Milliseconds(1);
  double disconnects_per_second = 0;  // of the whole generator
};

struct GeneratorOptions {
  int senders = 1;  // each with a pacing and a completing thread
  // Open arrivals, and how many may be in flight at one time.
  std::optional<ArrivalSequence> arrivals;
  int max_in_flight = 0;  // 0 without arrivals
  // Closed loops by their clients' numbers, alone or beside open arrivals: a
  // client's next request is due `think` after its last one ended.
  std::vector<int64_t> clients;
  // Closed loops of one more sender, for long answers that would hold up the
  // others on a shared connection.
  std::vector<int64_t> separate_clients;
  absl::Duration think;
  absl::Duration warmup;
  absl::Duration duration;
  // Deadline of each request, sent to the server; a miss is no error.
  // Infinite: none.
  absl::Duration deadline = absl::InfiniteDuration();
  // A request without an answer after this is given up, which is an error. The
  // generator looks about every 100 ms; the server is not told, since a
  // deadline costs both sides some microseconds a request.
  absl::Duration timeout = absl::Seconds(30);
  Disturbances disturbances;
  std::vector<std::string> class_names;  // one a row class
  std::vector<int64_t> class_rows;       // m of each
  uint64_t seed = 1;
};

struct PickedRequest {
  int message = 0;         // of the transport's set
  int row_class = 0;       // index of RunResult::classes
  int64_t rows = 0;        // m
  int64_t bytes_sent = 0;  // of A
};

// Picks a request. Thread-safe; the same arguments give the same request.
// `sequence` counts a client's requests from 0; open arrivals have client -1,
// and their index as `sequence`.
using PickRequest =
    std::function<PickedRequest(int64_t client, int64_t sequence)>;

// Looks at the answer to message number `message`, borrowed for the call.
// `sequence` counts the answers of one sender from 0. Thread-safe; called
// outside the measured latency.
using ObserveAnswer = std::function<void(int message, int64_t sequence,
                                         const EndedRequest& answer)>;

// Functions that senders call.
struct GeneratorParts {
  OpenTransport open;
  PickRequest pick;
  ObserveAnswer observe;  // may be null
};

// Called about every 100 ms on the thread that called GenerateLoad.
using LiveView = std::function<void(const SeriesPoint&)>;

// Sends until the time is over or `stop` becomes true, and waits for requests
// in flight. The caller adds what it knows: label, rate, processor times and
// uploads. Errors: those of opening connections.
absl::StatusOr<RunResult> GenerateLoad(const GeneratorOptions& options,
                                       const GeneratorParts& parts,
                                       const std::atomic<bool>& stop,
                                       const LiveView& live);

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_LOAD_GENERATOR_H_
