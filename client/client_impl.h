// SPDX-License-Identifier: Apache-2.0
//
// The parts of Client that its methods share: calls with small messages, calls
// with operands, and the wait for either.

#ifndef QGEMM_CLIENT_CLIENT_IMPL_H_
#define QGEMM_CLIENT_CLIENT_IMPL_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <future>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/call_engine.h"
#include "client/channels.h"
#include "client/gemm_wire.h"
#include "client/run_wire.h"
#include "qgemm/client.h"
#include "qgemm/v1/program.pb.h"
#include "rpc/payload_message.h"

namespace qgemm {

// Thread-safe.
class Client::Impl {
 public:
  Impl(Channels channels, const ClientOptions& options)
      : max_message_bytes_(options.max_message_bytes),
        engine_(std::move(channels), options.retry,
                options.completion_threads) {}

  CallEngine& engine() { return engine_; }
  int64_t max_message_bytes() const { return max_message_bytes_; }

  absl::Status CheckMayBlock() const {
    if (!engine_.OnEngineThread()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "a blocking call inside a callback would wait for itself; use the "
        "asynchronous one");
  }

  // The call of a request that is as it should be, without its `done`. What the
  // request lends is released whatever becomes of it. Errors: INVALID_ARGUMENT;
  // RESOURCE_EXHAUSTED if the operand fits no message.
  absl::StatusOr<UnaryCall> GemmCall(const GemmRequest& request) const;
  absl::StatusOr<UnaryCall> RunCall(const RunRequest& request) const;

  absl::StatusOr<RegisterResult> LoadProgram(v1::Program program,
                                             const RegisterOptions& options);

  // Makes a call with small messages and waits for it.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(const char* method, const Request& request,
                                absl::Time deadline) {
    RETURN_IF_ERROR(CheckMayBlock());
    UnaryCall call;
    call.method = method;
    call.request = WriteMessage(request);
    call.deadline = deadline;
    CallOutcome outcome = Await(std::move(call));
    RETURN_IF_ERROR(outcome.status);
    Response response;
    const grpc::Status parsed =
        grpc::SerializationTraits<Response>::Deserialize(&outcome.response,
                                                         &response);
    if (parsed.ok()) return response;
    return absl::InternalError(absl::StrCat(
        "the server's answer does not parse: ", parsed.error_message()));
  }

  // Calls for page after page, each of which `take` is given.
  template <typename Response, typename Request>
  absl::Status CallForPages(
      const char* method, absl::Time deadline,
      absl::FunctionRef<absl::Status(const Response&)> take) {
    Request request;
    request.set_page_size(kPageEntries);
    while (true) {
      ASSIGN_OR_RETURN(const Response response,
                       Call<Response>(method, request, deadline));
      RETURN_IF_ERROR(take(response));
      const std::string& next = response.next_page_token();
      if (next.empty()) return absl::OkStatus();
      if (next == request.page_token()) {
        return absl::InternalError(
            "the server's next_page_token is that of the page it answered");
      }
      request.set_page_token(next);
    }
  }

  // Makes a call whose messages end with operands, and waits for it. The
  // answer is read on this thread, as `expected` says: many callers share the
  // few that complete calls.
  template <typename Result, typename Expected>
  absl::StatusOr<Result> CallWithOperand(absl::StatusOr<UnaryCall> call,
                                         const Expected& expected) {
    RETURN_IF_ERROR(CheckMayBlock());
    RETURN_IF_ERROR(call.status());
    return ReadOutcome<Result>(Await(*std::move(call)), expected);
  }

  // The same without waiting; `callback` runs on an engine thread.
  template <typename Result, typename Expected>
  CallHandle StartWithOperand(
      absl::StatusOr<UnaryCall> call, const Expected& expected,
      absl::AnyInvocable<void(absl::StatusOr<Result>)> callback) {
    if (!call.ok()) {
      engine_.Fail(call.status(), [callback = std::move(callback)](
                                      CallOutcome outcome) mutable {
        callback(std::move(outcome.status));
      });
      return CallHandle();
    }
    call->done = [callback = std::move(callback),
                  expected](CallOutcome outcome) mutable {
      callback(ReadOutcome<Result>(std::move(outcome), expected));
    };
    return CallHandle([started = engine_.Start(*std::move(call))] {
      CallEngine::Cancel(started);
    });
  }

 private:
  // `subject` is the message's beginning, as "a has"; `way_round` begins with a
  // space and ends with a comma, or is empty.
  absl::Status CheckOperandFits(absl::string_view subject, int64_t bytes,
                                absl::string_view way_round) const;

  // Entries of a page that the server may fill.
  static constexpr uint32_t kPageEntries = 1000;

  CallOutcome Await(UnaryCall call) {
    std::promise<CallOutcome> promise;
    std::future<CallOutcome> future = promise.get_future();
    call.done = [promise = std::move(promise)](CallOutcome outcome) mutable {
      promise.set_value(std::move(outcome));
    };
    engine_.Start(std::move(call));
    return future.get();
  }

  template <typename Result, typename Expected>
  static absl::StatusOr<Result> ReadOutcome(CallOutcome outcome,
                                            const Expected& expected) {
    RETURN_IF_ERROR(outcome.status);
    ASSIGN_OR_RETURN(Result result, ReadResult(&outcome.response, expected));
    result.attempts = outcome.attempts;
    return result;
  }

  const int64_t max_message_bytes_;
  CallEngine engine_;
};

// The future of a call that `start` makes with the callback it is given.
template <typename Result>
std::future<absl::StatusOr<Result>> FutureOf(
    absl::FunctionRef<
        void(absl::AnyInvocable<void(absl::StatusOr<Result>)> callback)>
        start) {
  std::promise<absl::StatusOr<Result>> promise;
  std::future<absl::StatusOr<Result>> future = promise.get_future();
  start([promise = std::move(promise)](absl::StatusOr<Result> result) mutable {
    promise.set_value(std::move(result));
  });
  return future;
}

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLIENT_IMPL_H_
