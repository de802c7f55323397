// SPDX-License-Identifier: Apache-2.0
//
// One multiplication as a caller sees it: the request and its result.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/matrix/types.h"
#include "qgemm/float_types.h"

namespace qgemm {

// Order among requests that wait at the server: high ones go first.
enum class RequestPriority : uint8_t { kLow, kNormal, kHigh };

// The priority called "low", "normal" or "high"; nullopt for another text.
std::optional<RequestPriority> ParsePriority(absl::string_view text);

// C[m, n] = A[m, k] * W[n, k]^T + bias[n].
// Spans are borrowed; the fields say for how long.
struct GemmRequest {
  std::string weights;  // a name or an id of resident weights
  int64_t m = 0;        // rows of A, 1 or more
  // A: [m, k] elements of a_type, row-major without gaps, little-endian, any
  // alignment. Copied before the call that takes the request returns, unless
  // a_released is set.
  absl::Span<const uint8_t> a;
  FloatType a_type = FloatType::kFloat16;
  // If set, A is sent from where it is and must not change until this runs:
  // once a call, on any thread, however the call ends, possibly after its end.
  // It must not block, nor call or destroy the client.
  std::function<void()> a_released;
  // Memory for C, exactly [m, n] elements of c_type: the answer is written
  // there, and must be left alone until the call has ended. Empty: the answer
  // comes in GemmResult::c.
  absl::Span<uint8_t> c;
  std::optional<FloatType> c_type;  // of the result; a_type if unset
  ComputeMode mode = ComputeMode::kA16;
  // Mode A16 with fp32 A: the type that A is rounded to, kFloat16 or
  // kBFloat16.
  FloatType rounding = FloatType::kBFloat16;
  // The server drops the request if it has not started by then; the call
  // ends with DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  // The client that fairness at the server counts the request for, among those
  // of the same user or address: [A-Za-z0-9._/-]{1,128}. Empty: one shared by
  // all callers from the connection's address.
  std::string client_id;
  RequestPriority priority = RequestPriority::kNormal;

  // Set `a` and `a_type`, or `c` and `c_type`, from spans of elements.
  void SetA(absl::Span<const float> values);
  void SetA(absl::Span<const Half> values);
  void SetA(absl::Span<const BFloat16> values);
  void SetC(absl::Span<float> values);
  void SetC(absl::Span<Half> values);
  void SetC(absl::Span<BFloat16> values);

  // The type of the result's elements.
  FloatType result_type() const { return c_type.value_or(a_type); }
};

// Time that a request spent at the server that answered it, by stage. A
// request of many rows runs in several launches; times are sums over them.
struct Timings {
  absl::Duration queue;  // accepted until its launch started
  absl::Duration host_to_device;
  absl::Duration kernel;
  absl::Duration device_to_host;
  absl::Duration total;         // parsed request until the answer was sent
  int64_t launch_rows = 0;      // of all requests in its largest launch
  int64_t launch_requests = 0;  // requests that shared that launch
  // Parts of `kernel`, one an op of a program whose run asked for them
  // (qgemm/program.h): ops that the backend ran as one have theirs at the last
  // of them. Empty if the server cannot tell.
  std::vector<absl::Duration> ops = {};
};

struct GemmResult {
  // C: [m, n] elements of c_type, row-major without gaps, little-endian.
  // Empty if the request gave memory for it.
  std::string c;
  // That memory, borrowed; empty if the request gave none.
  absl::Span<const uint8_t> placed_c;
  FloatType c_type = FloatType::kFloat16;
  int64_t m = 0;
  int64_t n = 0;
  Timings timings;
  int attempts = 1;  // 2 or more after a retry

  // The bytes of C, wherever they are.
  absl::Span<const uint8_t> bytes() const;

  // C as floats, exact for every type.
  std::vector<float> ToFloats() const;
};

// Runs exactly once, on a completion thread of the client's, with no lock
// held. It may call the client, destroying it included, but must not block:
// other calls of the client finish on the same thread.
using GemmCallback = absl::AnyInvocable<void(absl::StatusOr<GemmResult>)>;

// A handle for giving up a call that Client::GemmAsync or RunAsync made. Copies
// stand for the same call, a default-constructed handle for none. Thread-safe;
// it may outlive the call and the client.
class CallHandle {
 public:
  CallHandle() = default;
  explicit CallHandle(std::function<void()> cancel)
      : cancel_(std::move(cancel)) {}

  // Ends the call with CANCELLED unless its answer has come; the callback runs
  // all the same. No effect on a call that has ended, nor on one by a lane
  // whose result is written to lane memory: it ends with the answer.
  void Cancel() const {
    if (cancel_ != nullptr) cancel_();
  }

 private:
  std::function<void()> cancel_;
};

using GemmHandle = CallHandle;

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_H_
