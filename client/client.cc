// SPDX-License-Identifier: Apache-2.0
//
// Client: checks, calls and translation; call_engine.h makes the calls.

#include "qgemm/client.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/call_engine.h"
#include "client/channels.h"
#include "client/gemm_wire.h"
#include "client/retry.h"
#include "client/stream_call.h"
#include "client/upload.h"
#include "client/weights_stream.h"
#include "client/weights_wire.h"
#include "rpc/message_limits.h"

namespace qgemm {
namespace {

// Layers of a page that the server may fill.
constexpr uint32_t kPageLayers = 1000;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ClientOptions::", field,
                                                 " is ", value, "; it must be ",
                                                 low, " to ", high));
}

absl::Status CheckOptions(const ClientOptions& options) {
  RETURN_IF_ERROR(CheckRange("channels", options.channels, 1, 1024));
  RETURN_IF_ERROR(
      CheckRange("completion_threads", options.completion_threads, 1, 1024));
  RETURN_IF_ERROR(CheckRange("max_message_bytes", options.max_message_bytes,
                             4 * kMessageOverheadBytes,
                             std::numeric_limits<int>::max()));
  return Validate(options.retry);
}

absl::Status CheckGemm(const GemmRequest& request, int64_t max_message_bytes) {
  RETURN_IF_ERROR(CheckOperand(request));
  const int64_t a_bytes = request.a.size();
  if (a_bytes <= max_message_bytes - kMessageOverheadBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "a has ", a_bytes, " bytes; ClientOptions::max_message_bytes of ",
      max_message_bytes, " allows ", max_message_bytes - kMessageOverheadBytes,
      "; send fewer rows a call, use a stream, or raise the limit here and at "
      "the server (--max_message_bytes)"));
}

absl::Status CheckStream(const GemmStreamOptions& options,
                         int64_t max_message_bytes) {
  if (max_message_bytes < kMinFragmentBytes + kMessageOverheadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("ClientOptions::max_message_bytes is ", max_message_bytes,
                     "; a stream needs ",
                     kMinFragmentBytes + kMessageOverheadBytes, " or more"));
  }
  if (options.window < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("GemmStreamOptions::window is ", options.window,
                     "; it must be 1 or more"));
  }
  if (options.fragment_bytes < kMinFragmentBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GemmStreamOptions::fragment_bytes is ", options.fragment_bytes,
        "; it must be ", kMinFragmentBytes, " or more"));
  }
  return absl::OkStatus();
}

template <typename Message>
absl::StatusOr<Message> ParseResponse(CallOutcome* outcome) {
  RETURN_IF_ERROR(outcome->status);
  Message message;
  const grpc::Status parsed = grpc::SerializationTraits<Message>::Deserialize(
      &outcome->response, &message);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat(
        "the server's answer does not parse: ", parsed.error_message()));
  }
  return message;
}

template <typename Message>
grpc::ByteBuffer Serialize(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<GemmResult> ParseGemm(CallOutcome outcome,
                                     const ExpectedResult& expected) {
  RETURN_IF_ERROR(outcome.status);
  ASSIGN_OR_RETURN(GemmResult result, ReadResult(&outcome.response, expected));
  result.attempts = outcome.attempts;
  return result;
}

}  // namespace

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

  // Makes a call with small messages and waits for it.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(const char* method, const Request& request,
                                absl::Time deadline) {
    RETURN_IF_ERROR(CheckMayBlock());
    std::promise<CallOutcome> promise;
    std::future<CallOutcome> future = promise.get_future();
    UnaryCall call;
    call.method = method;
    call.request = Serialize(request);
    call.deadline = deadline;
    call.done = [promise = std::move(promise)](CallOutcome outcome) mutable {
      promise.set_value(std::move(outcome));
    };
    engine_.Start(std::move(call));
    CallOutcome outcome = future.get();
    return ParseResponse<Response>(&outcome);
  }

  // The call of a request that is as it should be, without its `done`.
  absl::StatusOr<UnaryCall> GemmCall(const GemmRequest& request) const {
    // Made first, so that a borrowed A is released whatever becomes of it.
    const grpc::Slice operand = OperandToWire(request);
    RETURN_IF_ERROR(CheckGemm(request, max_message_bytes_));
    UnaryCall call;
    call.method = "/qgemm.v1.Qgemm/Gemm";
    call.request = ToWire(request, operand);
    call.deadline = request.deadline;
    return call;
  }

 private:
  const int64_t max_message_bytes_;
  CallEngine engine_;
};

Client::Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  if (!impl_->engine().OnEngineThread()) {
    impl_->engine().Shutdown();
    return;
  }
  // A callback owned the client: its thread cannot wait for itself.
  std::thread([impl = impl_] { impl->engine().Shutdown(); }).detach();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const std::string& target, const ClientOptions& options) {
  RETURN_IF_ERROR(CheckTarget(target));
  RETURN_IF_ERROR(CheckOptions(options));
  Channels channels =
      CreateChannels(target, options.channels, options.max_message_bytes);
  const bool connected =
      WaitForChannels(channels, absl::Now() + options.connect_timeout);
  ClientOptions probe = options;
  if (!connected) probe.retry.max_attempts = 1;
  std::unique_ptr<Client> client(
      new Client(std::make_shared<Impl>(std::move(channels), probe)));
  if (connected) return client;
  // The channel knows only that it failed; a call is told why.
  const absl::Status reason =
      client->GetServerInfo(absl::Now() + absl::Seconds(1)).status();
  return absl::UnavailableError(absl::StrCat(
      "connect to ", target, ": no connection within ",
      absl::FormatDuration(options.connect_timeout), ": ", reason.message()));
}

absl::StatusOr<LoadResult> Client::LoadWeights(const EncodedWeights& weights,
                                               const LoadOptions& options) {
  ASSIGN_OR_RETURN(const WeightsStream stream, StreamOf(weights));
  return LoadWeights(stream, options);
}

absl::StatusOr<LoadResult> Client::LoadWeights(const WeightsStream& stream,
                                               const LoadOptions& options) {
  const std::shared_ptr<Impl> impl = impl_;
  RETURN_IF_ERROR(impl->CheckMayBlock());
  return Upload(&impl->engine(), stream, options, impl->max_message_bytes());
}

absl::StatusOr<LoadResult> Client::LoadWeights(const DenseUpload& dense,
                                               const LoadOptions& options) {
  ASSIGN_OR_RETURN(const WeightsStream stream, StreamOf(dense));
  return LoadWeights(stream, options);
}

absl::StatusOr<GemmResult> Client::Gemm(const GemmRequest& request) {
  const std::shared_ptr<Impl> impl = impl_;
  RETURN_IF_ERROR(impl->CheckMayBlock());
  ASSIGN_OR_RETURN(UnaryCall call, impl->GemmCall(request));
  // The answer is parsed on this thread: many callers share the few that
  // complete calls.
  std::promise<CallOutcome> promise;
  std::future<CallOutcome> future = promise.get_future();
  call.done = [promise = std::move(promise)](CallOutcome outcome) mutable {
    promise.set_value(std::move(outcome));
  };
  impl->engine().Start(std::move(call));
  return ParseGemm(future.get(), ExpectedResult(request));
}

GemmHandle Client::GemmAsync(const GemmRequest& request,
                             GemmCallback callback) {
  absl::StatusOr<UnaryCall> call = impl_->GemmCall(request);
  if (!call.ok()) {
    impl_->engine().Fail(call.status(), [callback = std::move(callback)](
                                            CallOutcome outcome) mutable {
      callback(std::move(outcome.status));
    });
    return GemmHandle();
  }
  call->done = [callback = std::move(callback),
                expected =
                    ExpectedResult(request)](CallOutcome outcome) mutable {
    callback(ParseGemm(std::move(outcome), expected));
  };
  return GemmHandle([started = impl_->engine().Start(*std::move(call))] {
    CallEngine::Cancel(started);
  });
}

std::future<absl::StatusOr<GemmResult>> Client::GemmFuture(
    const GemmRequest& request) {
  std::promise<absl::StatusOr<GemmResult>> promise;
  std::future<absl::StatusOr<GemmResult>> future = promise.get_future();
  GemmAsync(request, [promise = std::move(promise)](
                         absl::StatusOr<GemmResult> result) mutable {
    promise.set_value(std::move(result));
  });
  return future;
}

absl::StatusOr<std::unique_ptr<GemmStream>> Client::GemmStream(
    const GemmStreamOptions& options) {
  const std::shared_ptr<Impl> impl = impl_;
  RETURN_IF_ERROR(CheckStream(options, impl->max_message_bytes()));
  ASSIGN_OR_RETURN(const ServerInfo server, GetServerInfo(options.deadline));
  StreamCallOptions call_options;
  call_options.window = options.window;
  call_options.c_fragment_bytes =
      std::min(options.fragment_bytes,
               impl->max_message_bytes() - kMessageOverheadBytes);
  call_options.a_fragment_bytes =
      std::min(call_options.c_fragment_bytes,
               server.max_message_bytes - kMessageOverheadBytes);
  call_options.max_operand_bytes = server.max_stream_operand_bytes;
  call_options.deadline = options.deadline;
  auto call = std::make_shared<StreamCall>(call_options, &impl->engine());
  RETURN_IF_ERROR(call->Start());
  return std::make_unique<qgemm::GemmStream>(std::move(call), impl);
}

absl::StatusOr<bool> Client::UnloadWeights(absl::string_view name_or_id,
                                           absl::Time deadline,
                                           absl::string_view if_match) {
  v1::UnloadWeightsRequest request;
  request.set_weights(std::string(name_or_id));
  request.set_if_match(std::string(if_match));
  ASSIGN_OR_RETURN(const v1::UnloadWeightsResponse response,
                   impl_->Call<v1::UnloadWeightsResponse>(
                       "/qgemm.v1.Qgemm/UnloadWeights", request, deadline));
  return response.freed();
}

absl::StatusOr<std::vector<WeightsInfo>> Client::ListWeights(
    absl::Time deadline) {
  std::vector<WeightsInfo> weights;
  v1::ListWeightsRequest request;
  request.set_page_size(kPageLayers);
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListWeightsResponse response,
                     impl_->Call<v1::ListWeightsResponse>(
                         "/qgemm.v1.Qgemm/ListWeights", request, deadline));
    for (const v1::WeightsInfo& info : response.weights()) {
      weights.push_back(FromWire(info));
    }
    const std::string& next = response.next_page_token();
    if (next.empty()) return weights;
    if (next == request.page_token()) {
      return absl::InternalError(
          "the server's next_page_token is that of the page it answered");
    }
    request.set_page_token(next);
  }
}

absl::StatusOr<WeightsInfo> Client::GetWeights(absl::string_view name_or_id,
                                               absl::Time deadline) {
  v1::GetWeightsRequest request;
  request.set_weights(std::string(name_or_id));
  ASSIGN_OR_RETURN(const v1::GetWeightsResponse response,
                   impl_->Call<v1::GetWeightsResponse>(
                       "/qgemm.v1.Qgemm/GetWeights", request, deadline));
  return FromWire(response.weights());
}

absl::StatusOr<ServerInfo> Client::GetServerInfo(absl::Time deadline) {
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse response,
                   impl_->Call<v1::GetServerInfoResponse>(
                       "/qgemm.v1.Qgemm/GetServerInfo",
                       v1::GetServerInfoRequest(), deadline));
  return FromWire(response);
}

}  // namespace qgemm
