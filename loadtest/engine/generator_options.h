// SPDX-License-Identifier: Apache-2.0
//
// Options of the load generator, and the interfaces that it calls: one picks
// requests, one looks at answers.

#ifndef QGEMM_LOADTEST_ENGINE_GENERATOR_OPTIONS_H_
#define QGEMM_LOADTEST_ENGINE_GENERATOR_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
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
  // Least pause of a closed loop after an error, so that a server that refuses
  // at once is not called in a tight loop.
  absl::Duration pause_after_error = absl::Milliseconds(5);
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

// Thread-safe; the same arguments give the same request.
class RequestPicker {
 public:
  virtual ~RequestPicker() = default;
  // `sequence` counts a client's requests from 0. Open arrivals have client
  // -1, and their index as `sequence`.
  virtual PickedRequest Pick(int64_t client, int64_t sequence) const = 0;
};

// Looks at answers. Thread-safe. Called outside the measured latency.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // An answer to message number `message`: C in pieces, borrowed for the call.
  // `sequence` counts the answers of one sender from 0.
  virtual void OnAnswer(int message, int64_t sequence,
                        absl::Span<const absl::string_view> c) = 0;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_GENERATOR_OPTIONS_H_
