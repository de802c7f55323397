// SPDX-License-Identifier: Apache-2.0
//
// Many multiplications over one call: pipelined, answered as they are ready,
// with operands of any size. What one multiplication is stands in gemm.h.

#ifndef QGEMM_CLIENT_GEMM_STREAM_H_
#define QGEMM_CLIENT_GEMM_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/gemm.h"

namespace qgemm {

class StreamCall;

struct GemmStreamOptions {
  // Requests that have no answer yet; Submit waits for a place among them. The
  // server reads on only while few enough wait there (--max_stream_requests).
  int window = 128;
  // Of A, and of C, in one message; less if a message of either side holds
  // less. A larger operand goes in fragments.
  int64_t fragment_bytes = int64_t{1} << 20;
  // Of the stream as a whole; then it breaks with DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
};

// A stream to one server, made by Client::OpenStream. A request that fails
// ends with its own status, and the stream goes on; if the stream itself
// breaks, all that is outstanding ends with the reason, and so does every
// Submit from then on. Nothing is retried: a Gemm has no effect on the server,
// so that a request that ended with UNAVAILABLE may be sent again, on another
// stream.
//
// Thread-safe, but for the destructor. It cancels what is outstanding and
// waits for the callbacks, which are given CANCELLED; inside a callback it
// does not wait. Destroying the client does the same to its streams.
class GemmStream {
 public:
  // `owner` keeps what `call` works with.
  GemmStream(std::shared_ptr<StreamCall> call, std::shared_ptr<void> owner);
  GemmStream(const GemmStream&) = delete;
  GemmStream& operator=(const GemmStream&) = delete;
  ~GemmStream();

  // Sends a request and returns its number, of use to Cancel. Waits while the
  // window is full, except inside a callback, where it never does. The request
  // holds what GemmOptions says of A; its deadline is the server's to keep.
  // OK: `callback` runs exactly once, as GemmCallback says, perhaps before
  // this returns. Otherwise it never runs.
  // Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (A beyond the server's limit),
  // DEADLINE_EXCEEDED (it has passed), FAILED_PRECONDITION (after Finish), why
  // the stream broke.
  absl::StatusOr<uint64_t> Submit(const GemmOptions& options,
                                  GemmCallback callback);

  // Has the request end with CANCELLED unless its launch has begun; its
  // callback runs all the same. Nothing if it has ended.
  void Cancel(uint64_t request);

  // Takes no more requests, waits until all have been answered and ends the
  // stream. OK if the server ended it so. FAILED_PRECONDITION inside a
  // callback.
  absl::Status Finish();

 private:
  // In this order: the call goes first.
  const std::shared_ptr<void> owner_;
  const std::shared_ptr<StreamCall> call_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_GEMM_STREAM_H_
