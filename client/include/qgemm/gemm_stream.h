// SPDX-License-Identifier: Apache-2.0
//
// Many multiplications and runs of programs over one call: pipelined, answered
// as they are ready, with operands of any size. qgemm/gemm.h and
// qgemm/program.h have the requests and the results.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_STREAM_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm {

class StreamCall;

struct GemmStreamOptions {
  // Requests that have no answer yet; Submit waits while there are this many.
  // The server stops reading while too many wait there
  // (--max_stream_requests).
  int window = 128;
  // Upper bound for bytes of A or C, or of a program's inputs or outputs, in
  // one message; both sides' message limits bound it further. A larger operand
  // goes in fragments.
  int64_t fragment_bytes = int64_t{1} << 20;
  // Deadline of the whole stream; it breaks with DEADLINE_EXCEEDED then.
  absl::Time deadline = absl::InfiniteFuture();
};

// A stream to one server, made by Client::GemmStream. A request that fails
// ends with its own status, and the stream goes on; if the stream itself
// breaks, all outstanding requests end with the reason, and so does every
// Submit from then on. Nothing is retried: a Gemm or Run has no effect on the
// server, so a request that ended with UNAVAILABLE may be sent again, on
// another stream, and one whose status has a RetryDelay
// (qgemm/client_options.h) again on this stream after that time.
//
// Thread-safe, but for the destructor. It cancels what is outstanding and
// waits for the callbacks, which are given CANCELLED; inside a callback it
// does not wait. Destroying the client does the same to its streams.
class GemmStream {
 public:
  // `owner` keeps alive what `call` works with.
  GemmStream(std::shared_ptr<StreamCall> call, std::shared_ptr<void> owner);
  GemmStream(const GemmStream&) = delete;
  GemmStream& operator=(const GemmStream&) = delete;
  ~GemmStream();

  // Sends a request and returns its number, for Cancel. Waits while the window
  // is full, except inside a callback, where it never does. The request's
  // spans are borrowed as GemmRequest says; its deadline is the server's to
  // keep.
  // OK: `callback` runs exactly once, as GemmCallback says, perhaps before
  // this returns. Otherwise it never runs.
  // Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (A beyond the server's limit),
  // DEADLINE_EXCEEDED (it has passed), FAILED_PRECONDITION (after Finish), the
  // reason that broke the stream.
  absl::StatusOr<uint64_t> Submit(const GemmRequest& request,
                                  GemmCallback callback);
  // The same of a run of a program, whose inputs are A.
  absl::StatusOr<uint64_t> Submit(const RunRequest& request,
                                  RunCallback callback);

  // Ends the request with CANCELLED unless its launch has begun; its callback
  // runs all the same. No effect if it has ended.
  void Cancel(uint64_t request);

  // Takes no more requests, waits until all have been answered and ends the
  // stream. Returns the status that the server ended it with.
  // FAILED_PRECONDITION inside a callback.
  absl::Status Finish();

 private:
  // In this order: the call goes first.
  const std::shared_ptr<void> owner_;
  const std::shared_ptr<StreamCall> call_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_GEMM_STREAM_H_
