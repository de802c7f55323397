// SPDX-License-Identifier: Apache-2.0
//
// Client: connections, weights and multiplications. programs.cc has the rest,
// client_impl.h what both share; call_engine.h makes the calls.

#include "qgemm/client.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/call_engine.h"
#include "client/channels.h"
#include "client/client_impl.h"
#include "client/device_operands.h"
#include "client/gemm_wire.h"
#include "client/retry.h"
#include "client/stream_call.h"
#include "client/upload.h"
#include "client/weights_stream.h"
#include "client/weights_wire.h"
#include "lane/segment.h"
#include "rpc/message_limits.h"

namespace qgemm {
namespace {

constexpr char kGetServerInfo[] = "/qgemm.v1.Qgemm/GetServerInfo";

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ClientOptions::", field,
                                                 " is ", value, "; it must be ",
                                                 low, " to ", high));
}

absl::Status CheckLane(const ClientLaneOptions& lane) {
  RETURN_IF_ERROR(CheckRange("lane_options.operand_bytes", lane.operand_bytes,
                             1, int64_t{1} << 40));
  RETURN_IF_ERROR(
      CheckRange("lane_options.calls", lane.calls, 1, lane::kMaxSlots));
  if (lane.spin < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ClientOptions::lane_options.spin is ", absl::FormatDuration(lane.spin),
        "; it must be 0 or more"));
  }
  return CheckDeviceOperands(lane.device_operands);
}

absl::Status CheckOptions(const ClientOptions& options) {
  RETURN_IF_ERROR(CheckRange("channels", options.channels, 1, 1024));
  RETURN_IF_ERROR(
      CheckRange("completion_threads", options.completion_threads, 1, 1024));
  RETURN_IF_ERROR(CheckRange("max_message_bytes", options.max_message_bytes,
                             4 * kMessageOverheadBytes,
                             std::numeric_limits<int>::max()));
  RETURN_IF_ERROR(CheckLane(options.lane_options));
  return Validate(options.retry);
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

}  // namespace

absl::Status Client::Impl::CheckOperandFits(absl::string_view subject,
                                            int64_t bytes,
                                            absl::string_view way_round) const {
  const int64_t most = max_message_bytes_ - kMessageOverheadBytes;
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      subject, " ", bytes, " bytes; ClientOptions::max_message_bytes of ",
      max_message_bytes_, " allows ", most, "; send fewer rows a call,",
      way_round,
      " or raise the limit here and at the server (--max_message_bytes)"));
}

std::string Client::Impl::ReasonsOfNoConnection(const Connector& connector) {
  // A channel knows only that it failed; a call is told why.
  std::string reasons;
  for (size_t server = 0; server < servers_.size(); ++server) {
    ChannelPool::Request where;
    where.server = server;
    const absl::Status reason =
        CallAt<v1::GetServerInfoResponse>(where, kGetServerInfo,
                                          v1::GetServerInfoRequest(),
                                          absl::Now() + absl::Seconds(1))
            .status();
    absl::StrAppend(&reasons, server == 0 ? "" : "; ",
                    connector.Explain(server, reason));
  }
  return reasons;
}

absl::StatusOr<UnaryCall> Client::Impl::GemmCall(
    const GemmRequest& request) const {
  RETURN_IF_ERROR(
      CheckOnHost(device_operands(), request, CheckOperand(request)));
  // Made first, so that a borrowed A is released whatever becomes of it.
  const grpc::Slice operand = OperandToWire(request);
  RETURN_IF_ERROR(CheckOperand(request));
  RETURN_IF_ERROR(
      CheckOperandFits("a has", request.a.size(), " use a stream,"));
  UnaryCall call;
  call.method = "/qgemm.v1.Qgemm/Gemm";
  call.request = ToWire(request, operand);
  call.where.rows = request.m;
  call.deadline = request.deadline;
  return call;
}

Client::Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  if (!impl_->IsCallbackThread()) {
    impl_->Shutdown();
    return;
  }
  // A callback owned the client: its thread cannot wait for itself.
  std::thread([impl = impl_] { impl->Shutdown(); }).detach();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const std::string& target, const ClientOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const Connector connector,
                   Connector::Create(target, options));
  Channels channels = connector.Connect(options.channels);
  const bool connected =
      WaitForChannels(channels, absl::Now() + options.connect_timeout);
  ClientOptions probe = options;
  if (!connected) probe.retry.max_attempts = 1;
  const auto impl =
      std::make_shared<Impl>(connector, std::move(channels), probe);
  std::unique_ptr<Client> client(new Client(impl));
  if (connected) {
    RETURN_IF_ERROR(impl->StartLane(options.connect_timeout));
    return client;
  }
  return absl::UnavailableError(
      absl::StrCat("connect to ", target, ": no connection within ",
                   absl::FormatDuration(options.connect_timeout), ": ",
                   impl->ReasonsOfNoConnection(connector)));
}

std::vector<ServerConnection> Client::Connections() const {
  std::vector<ServerConnection> connections;
  for (const ServerTarget& server : impl_->servers()) {
    const ChannelPool::ServerLoad load =
        impl_->engine().pool().LoadOf(connections.size());
    const bool has_lane = impl_->lane_keeper().lane() != nullptr;
    connections.push_back(
        {server.address, load.connected, load.rows, has_lane});
  }
  return connections;
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
  RETURN_IF_ERROR(CheckUpload(stream, options, impl->max_message_bytes()));
  if (impl->servers().size() > 1 && stream.rewind == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "WeightsStream::rewind is empty; the stream is read for each of ",
        impl->servers().size(), " servers"));
  }
  std::optional<Sha256Digest> id;
  if (stream.rewind != nullptr) {
    ASSIGN_OR_RETURN(id, HashOf(stream));
  }
  ASSIGN_OR_RETURN(
      std::vector<absl::StatusOr<LoadResult>> ends,
      Upload(&impl->engine(), impl->servers().size(), stream, id, options));
  ASSIGN_OR_RETURN(std::vector<LoadResult> results,
                   impl->ResultsOf(std::move(ends)));
  LoadResult result = std::move(results.front());
  for (const LoadResult& other : results) {
    result.deduplicated &= other.deduplicated;
    result.resumed_bytes = std::min(result.resumed_bytes, other.resumed_bytes);
  }
  return result;
}

absl::StatusOr<LoadResult> Client::LoadWeights(const DenseUpload& dense,
                                               const LoadOptions& options) {
  ASSIGN_OR_RETURN(const WeightsStream stream, StreamOf(dense));
  return LoadWeights(stream, options);
}

absl::StatusOr<GemmResult> Client::Gemm(const GemmRequest& request) {
  const std::shared_ptr<Impl> impl = impl_;
  auto end = impl->lane_calls().Gemm(request);
  if (end.has_value()) return *std::move(end);
  return impl->CallWithOperand<GemmResult>(impl->GemmCall(request),
                                           ExpectedResult(request));
}

GemmHandle Client::GemmAsync(const GemmRequest& request,
                             GemmCallback callback) {
  return impl_->lane_calls().Start(
      request, std::move(callback),
      [impl = impl_.get()](const GemmRequest& request, LaneRemainder remainder,
                           GemmCallback callback) {
        return impl->StartWithOperand<GemmResult>(
            impl->GemmCall(request), remainder, ExpectedResult(request),
            std::move(callback));
      });
}

std::future<absl::StatusOr<GemmResult>> Client::GemmFuture(
    const GemmRequest& request) {
  return FutureOf<GemmResult>(
      [&](GemmCallback callback) { GemmAsync(request, std::move(callback)); });
}

absl::StatusOr<std::unique_ptr<GemmStream>> Client::GemmStream(
    const GemmStreamOptions& options) {
  const std::shared_ptr<Impl> impl = impl_;
  RETURN_IF_ERROR(CheckStream(options, impl->max_message_bytes()));
  ChannelPool::Request where;
  where.precedes_stream = true;
  ASSIGN_OR_RETURN(
      const auto answer,
      impl->CallAt<v1::GetServerInfoResponse>(
          where, kGetServerInfo, v1::GetServerInfoRequest(), options.deadline));
  const ServerInfo server = FromWire(answer.message);
  StreamCallOptions call_options;
  call_options.server = answer.server;
  call_options.window = options.window;
  call_options.c_fragment_bytes =
      std::min(options.fragment_bytes,
               impl->max_message_bytes() - kMessageOverheadBytes);
  call_options.a_fragment_bytes =
      std::min(call_options.c_fragment_bytes,
               server.max_message_bytes - kMessageOverheadBytes);
  call_options.max_operand_bytes = server.max_stream_operand_bytes;
  call_options.deadline = options.deadline;
  call_options.device_operands.assign(impl->device_operands().begin(),
                                      impl->device_operands().end());
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
  ASSIGN_OR_RETURN(const auto responses,
                   impl_->CallEveryServer<v1::UnloadWeightsResponse>(
                       "/qgemm.v1.Qgemm/UnloadWeights", request, deadline,
                       Impl::Lack::kIsFine));
  return std::all_of(responses.begin(), responses.end(),
                     [](const auto& response) { return response.freed(); });
}

absl::StatusOr<std::vector<std::string>> Client::FindMissingWeights(
    absl::Span<const std::string> ids, absl::Time deadline) {
  constexpr size_t kIdsACall = 900;
  std::vector<std::string> missing;
  for (size_t begin = 0; begin < ids.size(); begin += kIdsACall) {
    const auto part = ids.subspan(begin, kIdsACall);
    v1::FindMissingWeightsRequest request;
    for (const std::string& id : part) request.add_ids(id);
    ASSIGN_OR_RETURN(
        const auto responses,
        impl_->CallEveryServer<v1::FindMissingWeightsResponse>(
            "/qgemm.v1.Qgemm/FindMissingWeights", request, deadline));
    std::set<std::string> lacking;
    for (const auto& response : responses) {
      lacking.insert(response.missing().begin(), response.missing().end());
    }
    for (const std::string& id : part) {
      if (lacking.count(id) != 0) missing.push_back(id);
    }
  }
  return missing;
}

absl::StatusOr<std::vector<WeightsInfo>> Client::ListWeights(
    absl::Time deadline) {
  return ListWeightsWithPrefix("", deadline);
}

absl::StatusOr<std::vector<WeightsInfo>> Client::ListWeightsWithPrefix(
    absl::string_view prefix, absl::Time deadline) {
  v1::ListWeightsRequest request;
  request.set_prefix(std::string(prefix));
  std::vector<WeightsInfo> weights;
  const auto take = [&weights](const v1::ListWeightsResponse& response) {
    for (const v1::WeightsInfo& info : response.weights()) {
      weights.push_back(FromWire(info));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(impl_->CallForPages<v1::ListWeightsResponse>(
      "/qgemm.v1.Qgemm/ListWeights", std::move(request), deadline, take));
  return weights;
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
                       kGetServerInfo, v1::GetServerInfoRequest(), deadline));
  return FromWire(response);
}

}  // namespace qgemm
