// SPDX-License-Identifier: Apache-2.0
//
// What a request of the load is, as the engine sees it: a number.

#ifndef QGEMM_LOADTEST_ENGINE_REQUEST_PICKER_H_
#define QGEMM_LOADTEST_ENGINE_REQUEST_PICKER_H_

#include <cstdint>

namespace qgemm {

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
  // `sequence` counts a virtual client's requests from 0. Open arrivals have
  // client -1, and their index as `sequence`.
  virtual PickedRequest Pick(int64_t client, int64_t sequence) const = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_REQUEST_PICKER_H_
