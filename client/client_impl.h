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
#include <vector>

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
#include "client/every_server.h"
#include "client/gemm_wire.h"
#include "client/lane_calls.h"
#include "client/lane_keeper.h"
#include "client/run_wire.h"
#include "qgemm/client.h"
#include "qgemm/v1/program.pb.h"
#include "rpc/payload_message.h"

namespace qgemm {

// Thread-safe.
class Client::Impl {
 public:
  Impl(const Connector& connector, Channels channels,
       const ClientOptions& options)
      : max_message_bytes_(options.max_message_bytes),
        servers_(connector.servers()),
        lane_use_(options.lane),
        engine_(std::move(channels), connector.token(), options.retry,
                options.completion_threads),
        lane_keeper_([this](absl::Time deadline) { return LanePath(deadline); },
                     connector.token(), options.lane_options),
        lane_calls_(options.lane, &lane_keeper_, &engine_) {}

  // Opens the lane, if there is to be one; once, before all calls. Errors: of a
  // lane that is required.
  absl::Status StartLane(absl::Duration timeout);

  // Ends all calls and waits until they have ended. Once, and not on a thread
  // that runs callbacks.
  void Shutdown();

  CallEngine& engine() { return engine_; }
  LaneCalls& lane_calls() { return lane_calls_; }
  const LaneKeeper& lane_keeper() const { return lane_keeper_; }
  LaneUse lane_use() const { return lane_use_; }
  int64_t max_message_bytes() const { return max_message_bytes_; }
  const std::vector<ServerTarget>& servers() const { return servers_; }

  // True on the threads that run callbacks.
  bool IsCallbackThread() const {
    return engine_.OnEngineThread() || lane_keeper_.OnLaneThread();
  }

  absl::Status CheckMayBlock() const {
    if (!IsCallbackThread()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "a blocking call inside a callback would wait for itself; use the "
        "asynchronous one");
  }

  // Memory that gRPC cannot carry operands of.
  absl::Span<const DeviceOperands> device_operands() const {
    return lane_keeper_.device_operands();
  }

  // The call of a request that is as it should be, without its `done`. What the
  // request lends is released whatever becomes of it. Errors: INVALID_ARGUMENT;
  // RESOURCE_EXHAUSTED if the operand fits no message; those of CheckOnHost.
  absl::StatusOr<UnaryCall> GemmCall(const GemmRequest& request) const;
  absl::StatusOr<UnaryCall> RunCall(const RunRequest& request) const;

  // The reasons why no server can be reached, from one call to each.
  std::string ReasonsOfNoConnection(const Connector& connector);

  absl::StatusOr<RegisterResult> LoadProgram(v1::Program program,
                                             const RegisterOptions& options);

  // A small message and the server that sent it.
  template <typename Response>
  struct Answer {
    Response message;
    size_t server = 0;
  };

  // Makes a call with small messages where `where` says, and waits for it.
  template <typename Response, typename Request>
  absl::StatusOr<Answer<Response>> CallAt(const ChannelPool::Request& where,
                                          const char* method,
                                          const Request& request,
                                          absl::Time deadline) {
    RETURN_IF_ERROR(CheckMayBlock());
    UnaryCall call;
    call.method = method;
    call.request = WriteMessage(request);
    call.where = where;
    call.deadline = deadline;
    return AnswerOf<Response>(StartCall(std::move(call)).get());
  }

  // The same at any server.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(const char* method, const Request& request,
                                absl::Time deadline) {
    ASSIGN_OR_RETURN(Answer<Response> answer,
                     CallAt<Response>({}, method, request, deadline));
    return std::move(answer.message);
  }

  enum class Lack { kFails, kIsFine };

  // The results of what was done at all servers; or an error that names those
  // that it failed at. Servers that lack what the work is about count only if
  // all do, if `lack` says so.
  template <typename Result>
  absl::StatusOr<std::vector<Result>> ResultsOf(
      std::vector<absl::StatusOr<Result>> ends, Lack lack = Lack::kFails) {
    std::vector<Result> results;
    std::vector<ServerEnd> statuses;
    for (size_t server = 0; server < ends.size(); ++server) {
      statuses.push_back({servers_[server].address, ends[server].status()});
      if (ends[server].ok()) results.push_back(*std::move(ends[server]));
    }
    if (lack == Lack::kIsFine && !results.empty()) {
      for (ServerEnd& end : statuses) {
        if (absl::IsNotFound(end.status)) end.status = absl::OkStatus();
      }
    }
    RETURN_IF_ERROR(JoinEnds(statuses));
    return results;
  }

  // Calls all servers at once.
  template <typename Response, typename Request>
  absl::StatusOr<std::vector<Response>> CallEveryServer(
      const char* method, const Request& request, absl::Time deadline,
      Lack lack = Lack::kFails) {
    RETURN_IF_ERROR(CheckMayBlock());
    const grpc::ByteBuffer message = WriteMessage(request);
    std::vector<std::future<CallOutcome>> outcomes;
    for (size_t server = 0; server < servers_.size(); ++server) {
      UnaryCall call;
      call.method = method;
      call.request = message;
      call.where.server = server;
      call.deadline = deadline;
      outcomes.push_back(StartCall(std::move(call)));
    }
    std::vector<absl::StatusOr<Response>> ends;
    for (std::future<CallOutcome>& outcome : outcomes) {
      absl::StatusOr<Answer<Response>> answer =
          AnswerOf<Response>(outcome.get());
      if (answer.ok()) {
        ends.push_back(std::move(answer->message));
      } else {
        ends.push_back(answer.status());
      }
    }
    return ResultsOf(std::move(ends), lack);
  }

  // Calls one server for page after page, each of which `take` is given.
  template <typename Response, typename Request>
  absl::Status CallForPages(
      const char* method, Request request, absl::Time deadline,
      absl::FunctionRef<absl::Status(const Response&)> take) {
    request.set_page_size(kPageEntries);
    ChannelPool::Request where;
    while (true) {
      ASSIGN_OR_RETURN(const Answer<Response> answer,
                       CallAt<Response>(where, method, request, deadline));
      RETURN_IF_ERROR(take(answer.message));
      where.server = answer.server;
      const std::string& next = answer.message.next_page_token();
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
    return ReadOutcome<Result>(StartCall(*std::move(call)).get(), expected);
  }

  // The same without waiting, after what a lane has done of it; `callback` runs
  // on an engine thread.
  template <typename Result, typename Expected>
  CallHandle StartWithOperand(
      absl::StatusOr<UnaryCall> call, LaneRemainder remainder,
      const Expected& expected,
      absl::AnyInvocable<void(absl::StatusOr<Result>)> callback) {
    if (!call.ok()) {
      engine_.Fail(call.status(), [callback = std::move(callback)](
                                      CallOutcome outcome) mutable {
        callback(std::move(outcome.status));
      });
      return CallHandle();
    }
    call->attempts = remainder.attempts;
    call->pause = remainder.pause;
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

  // The path that the server tells of its lane; may be empty.
  absl::StatusOr<std::string> LanePath(absl::Time deadline);

  // Entries of a page that the server may fill.
  static constexpr uint32_t kPageEntries = 1000;

  // The future of the call's end.
  std::future<CallOutcome> StartCall(UnaryCall call) {
    std::promise<CallOutcome> promise;
    std::future<CallOutcome> future = promise.get_future();
    call.done = [promise = std::move(promise)](CallOutcome outcome) mutable {
      promise.set_value(std::move(outcome));
    };
    engine_.Start(std::move(call));
    return future;
  }

  template <typename Response>
  static absl::StatusOr<Answer<Response>> AnswerOf(CallOutcome outcome) {
    RETURN_IF_ERROR(outcome.status);
    Answer<Response> answer;
    answer.server = outcome.server;
    const grpc::Status parsed =
        grpc::SerializationTraits<Response>::Deserialize(&outcome.response,
                                                         &answer.message);
    if (parsed.ok()) return answer;
    return absl::InternalError(absl::StrCat(
        "the server's answer does not parse: ", parsed.error_message()));
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
  const std::vector<ServerTarget> servers_;
  const LaneUse lane_use_;
  CallEngine engine_;
  LaneKeeper lane_keeper_;  // calls the engine
  LaneCalls lane_calls_;
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
