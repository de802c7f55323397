// SPDX-License-Identifier: Apache-2.0
//
// One multiplication as a caller sees it: what goes out and what comes back.

#ifndef QGEMM_CLIENT_GEMM_H_
#define QGEMM_CLIENT_GEMM_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Who goes first among requests that wait at the server.
enum class RequestPriority : uint8_t { kLow, kNormal, kHigh };

// Of "low", "normal" and "high"; nothing for another text.
std::optional<RequestPriority> ParsePriority(absl::string_view text);

// C[m, n] = A[m, k] * W[n, k]^T + bias[n].
struct GemmOptions {
  std::string weights;  // a name or an id of resident weights
  int64_t m = 0;        // rows of A, 1 or more
  // A: [m, k] elements of a_type, row-major without gaps, little-endian, any
  // alignment. Copied before the call that takes the options returns, unless
  // a_released is set.
  absl::Span<const uint8_t> a;
  // If set, A is sent from where it is and must not change until this runs:
  // once, on any thread, however the call ends, possibly after its end. It
  // must not block, nor call or destroy the client.
  std::function<void()> a_released;
  FloatType a_type = FloatType::kFloat16;
  std::optional<FloatType> c_type;  // of the result; a_type if unset
  ComputeMode mode = ComputeMode::kA16;
  // Mode A16 with fp32 A: what A is rounded to, kFloat16 or kBFloat16.
  FloatType rounding = FloatType::kBFloat16;
  // The server drops the request if it has not started by then; the call
  // ends with DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  // Whose request it is, for fairness and quotas at the server:
  // [A-Za-z0-9._/-]{1,128}. Empty: that of all on the connection's address.
  std::string client_id;
  RequestPriority priority = RequestPriority::kNormal;
};

// Where a call's time went on the server that answered it.
struct ServerTimings {
  absl::Duration queue;  // accepted until its launch started
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  absl::Duration total;         // parsed request until the answer was sent
  int64_t launch_rows = 0;      // of all requests in the launch
  int64_t launch_requests = 0;  // that shared the launch
};

struct GemmResult {
  // C: [m, n] elements of c_type, row-major without gaps, little-endian.
  std::string c;
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  int64_t n = 0;
  ServerTimings timings;
  int attempts = 1;  // 2 or more after a retry

  // C as floats, exact for every type.
  std::vector<float> ToFloats() const;
};

// Runs exactly once, on a completion thread of the client's, with no lock
// held. It may call the client, destroying it included, but must not block:
// other calls of the client finish on the same thread.
using GemmCallback = std::function<void(absl::StatusOr<GemmResult>)>;

}  // namespace qgemm

#endif  // QGEMM_CLIENT_GEMM_H_
