// SPDX-License-Identifier: Apache-2.0
//
// A Gemm or a Run from its message to a request of the scheduler, shared by the
// unary RPCs and the stream: checks, the operands' memory, and who waits for
// the end.

#ifndef QGEMM_SERVER_RPC_GEMM_REQUEST_BUILDER_H_
#define QGEMM_SERVER_RPC_GEMM_REQUEST_BUILDER_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/task_runner.h"
#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/net/peer_table.h"
#include "server/programs/program_store.h"
#include "server/scheduling/batch_scheduler.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/parked_requests.h"
#include "server/weights/weight_store.h"

namespace qgemm {

// Bound of a result.
struct ResultLimit {
  int64_t c_bytes = 0;     // the most that are allowed
  absl::string_view flag;  // that sets the bound, and its value
  int64_t flag_bytes = 0;
};

// The most bytes of a result that fit in an answer of `max_message_bytes`.
int64_t MaxResultBytes(int64_t max_message_bytes);

// The bound of an answer that is one message.
ResultLimit MessageResultLimit(int64_t max_message_bytes);
// The bound of an answer in fragments.
ResultLimit StreamResultLimit(int64_t max_stream_operand_bytes);

// A request's shape as its message and the weights that it names give it.
struct GemmShape {
  uint64_t m = 0;  // as the message says
  int64_t n = 0;   // of the weights
  int64_t k = 0;
  int64_t a_bytes = 0;  // received, or announced
  MatmulSignature signature;
};

struct GemmLimits {
  ResultLimit result;
  int64_t max_batch_rows = 0;
};

// Sizes that fit: m rows, operands in bytes.
struct GemmSizes {
  int64_t m = 0;
  int64_t a_bytes = 0;
  int64_t c_bytes = 0;
};

// Errors: INVALID_ARGUMENT (m is zero or beyond the limit, the bytes of a are
// not m * k elements); RESOURCE_EXHAUSTED (the result is beyond its limit).
absl::StatusOr<GemmSizes> CheckGemmSizes(const GemmShape& shape,
                                         const GemmLimits& limits);

// The same of a program's m rows, whose inputs have `a_bytes`, and of its
// outputs.
absl::StatusOr<GemmSizes> CheckRunSizes(uint64_t m, int64_t a_bytes,
                                        const CheckedProgram& program,
                                        const GemmLimits& limits);

// RESOURCE_EXHAUSTED if a queue of `max_queued_bytes` can never hold the
// operands, which are not worth the transfer then.
absl::Status CheckQueueHolds(const GemmSizes& sizes, int64_t max_queued_bytes);

class OperandCopiers;

// Parts of the server that a Gemm passes through; they outlive its requests.
struct GemmServices {
  Backend* backend = nullptr;
  const WeightStore* store = nullptr;
  const ProgramStore* programs = nullptr;
  BatchScheduler* scheduler = nullptr;
  // Ends requests whose answers are long, or one of many of a stream.
  TaskRunner* answer_executor = nullptr;
  // Copy long operands in.
  OperandCopiers* copiers = nullptr;
  // Take requests whose layers are on the disk; null if none can be.
  ParkedRequests* parked = nullptr;
  // Operand bytes that one client's requests and answers may hold.
  int64_t max_client_staging_bytes = std::numeric_limits<int64_t>::max();
};

// The caller's side of a request.
struct GemmCaller {
  absl::Time arrival;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const std::atomic<bool>> cancelled;
  // Runs `done` where the launch's thread should not; must outlive the request.
  TaskRunner* completion_executor = nullptr;
  // The thread that enqueues may wait for the launch.
  bool may_wait = true;
};

// One request that passed its checks and is being completed: operands' memory,
// caller, end. Move-only. Not thread-safe.
class GemmRequestBuilder {
 public:
  GemmRequestBuilder() = default;  // empty

  const GemmSizes& sizes() const { return sizes_; }

  // OK if the scheduler would take the request now, else its refusal.
  absl::Status CheckRoom() const;

  // Memory for A and for C. Errors: RESOURCE_EXHAUSTED.
  absl::Status AcquireA();
  absl::Status AcquireC();
  uint8_t* a() { return request_->a.data(); }

  // In place of those: memory of the caller's that the backend computes in, of
  // the sizes' bytes.
  void SetOperands(StagingLease a, StagingLease c);

  // `done` is as AdmittedRequest says.
  void SetCaller(GemmCaller caller, AdmittedRequest::Done done);

  // Hands the request, of which all is there, to the scheduler, or to those
  // that wait for their layer.
  void Enqueue() &&;
  // The same of several requests of the same services, which may share a
  // launch. Leaves empty builders.
  static void EnqueueAll(absl::Span<GemmRequestBuilder> builders);

 private:
  friend absl::StatusOr<GemmRequestBuilder> ParseGemm(
      const GemmServices& services, const v1::GemmRequest& message,
      int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
      std::unique_ptr<AdmittedRequest> blank);
  friend absl::StatusOr<GemmRequestBuilder> ParseRun(
      const GemmServices& services, const v1::RunRequest& message,
      int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
      std::unique_ptr<AdmittedRequest> blank);

  // Takes over all that both messages have besides their work.
  template <typename Message>
  absl::Status SetClient(const Message& message, const Peer& peer);

  // True if its layer is on the disk.
  bool is_parked() const {
    return request_->weights == nullptr && request_->program == nullptr;
  }

  // Fills in `blank`, which is clear, or a request of its own without one.
  GemmRequestBuilder(const GemmServices& services,
                     std::unique_ptr<AdmittedRequest> blank)
      : services_(&services),
        request_(blank != nullptr ? std::move(blank)
                                  : std::make_unique<AdmittedRequest>()) {}

  const GemmServices* services_ = nullptr;
  std::unique_ptr<AdmittedRequest> request_;
  GemmSizes sizes_;
};

// Looks the weights up, which keeps them, and checks the whole message.
// `a_bytes` is the size of its A, which need not have come yet; `peer` is the
// client, and one of many under its identity if the message names one. Of a
// layer that is on the disk the backend is asked once it is in memory.
// `services` must outlive the builder. `blank` is a clear request to be used
// again, or null.
// Errors: INVALID_ARGUMENT, NOT_FOUND (the weights), UNIMPLEMENTED (the
// backend has no kernel for it), RESOURCE_EXHAUSTED (the result is beyond
// `result_limit`).
absl::StatusOr<GemmRequestBuilder> ParseGemm(
    const GemmServices& services, const v1::GemmRequest& message,
    int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
    std::unique_ptr<AdmittedRequest> blank);

// The same for a program, whose inputs have `a_bytes`. NOT_FOUND: the program.
absl::StatusOr<GemmRequestBuilder> ParseRun(
    const GemmServices& services, const v1::RunRequest& message,
    int64_t a_bytes, const ResultLimit& result_limit, const Peer& peer,
    std::unique_ptr<AdmittedRequest> blank);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_GEMM_REQUEST_BUILDER_H_
