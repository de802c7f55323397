// SPDX-License-Identifier: Apache-2.0
//
// The caller's side of one request of a stream: its answer, put together from
// messages, and its callback.

#ifndef QGEMM_CLIENT_PENDING_ANSWER_H_
#define QGEMM_CLIENT_PENDING_ANSWER_H_

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/gemm_wire.h"
#include "client/run_wire.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// Used by one thread at a time.
class PendingAnswer {
 public:
  virtual ~PendingAnswer() = default;

  // Takes the size and the timings from the first message. Errors: INTERNAL,
  // the server's fault.
  virtual absl::Status Begin(const v1::GemmStreamResponse& first) = 0;
  // Copies the answer's bytes from `offset` on, after Begin.
  virtual void Append(absl::Span<const absl::string_view> pieces,
                      int64_t offset) = 0;
  // Runs the callback, once: with `status` if that is an error, else with the
  // result, all of which has been appended.
  virtual void End(absl::Status status) = 0;
};

// A request's callback and the facts that its answer is read by, of a Gemm or
// of a Run.
template <typename Result, typename Expected>
class PendingAnswerOf final : public PendingAnswer {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Result>)>;

  PendingAnswerOf(Expected expected, Callback callback)
      : expected_(std::move(expected)), callback_(std::move(callback)) {}

  absl::Status Begin(const v1::GemmStreamResponse& first) override {
    result_ = ResultOfSize(static_cast<int64_t>(first.c_bytes()), expected_);
    if (result_.ok()) result_->timings = FromWire(first.timings());
    // Memory of another size is this request's fault, not the stream's.
    return absl::IsInternal(result_.status()) ? result_.status()
                                              : absl::OkStatus();
  }

  void Append(absl::Span<const absl::string_view> pieces,
              int64_t offset) override {
    if (result_.ok()) AppendPieces(pieces, offset, expected_, &*result_);
  }

  void End(absl::Status status) override {
    if (!status.ok()) return callback_(std::move(status));
    callback_(std::move(result_));
  }

 private:
  const Expected expected_;
  Callback callback_;
  absl::StatusOr<Result> result_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_PENDING_ANSWER_H_
