// SPDX-License-Identifier: Apache-2.0

#include "server/net/grpc_settings.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// Concurrent calls of one connection; a client holds back further ones. Each
// takes some 13 KB from its headers on.
constexpr int kMaxStreamsPerConnection = 128;

// Threads of gRPC's own services, reflection and channelz: each open stream of
// theirs holds one. Further ones are refused with RESOURCE_EXHAUSTED.
constexpr int kServiceThreads = 16;

// A connection whose client has not said what it speaks is closed.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);

// A client that asks more often whether the server is there is told to go away.
constexpr absl::Duration kLeastPingInterval = absl::Seconds(10);

constexpr int kMaxMetadataBytes = 8 << 10;

constexpr int64_t kLeastTransportBytes = int64_t{1} << 20;

// gRPC counts milliseconds in an int and takes the largest for no limit.
int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration),
                                            std::numeric_limits<int>::max()));
}

// Takes services of gRPC's own from one server. It adds those that were
// registered anywhere in the process, reflection by being linked, to all.
class WithoutPlugins final : public grpc::ServerBuilderOption {
 public:
  explicit WithoutPlugins(std::set<std::string> names)
      : names_(std::move(names)) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [this](const auto& plugin) {
                                    return names_.count(plugin->name()) > 0;
                                  }),
                   plugins->end());
  }

 private:
  const std::set<std::string> names_;
};

void ChooseServices(const GrpcSettings& settings,
                    grpc::ServerBuilder* builder) {
  std::set<std::string> unwanted;
  if (!settings.reflection) unwanted.insert("proto_server_reflection");
  if (!settings.channelz) unwanted.insert("channelz_service");
  builder->SetOption(std::make_unique<WithoutPlugins>(std::move(unwanted)));
}

using Arguments = std::map<std::string, std::variant<int, std::string>>;

Arguments ChannelArguments(const GrpcSettings& settings) {
  Arguments arguments;
  arguments[GRPC_ARG_MAX_CONCURRENT_STREAMS] = kMaxStreamsPerConnection;
  arguments[GRPC_ARG_MAX_METADATA_SIZE] = kMaxMetadataBytes;
  arguments[GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS] =
      ToMilliseconds(kHandshakeTimeout);
  arguments[GRPC_ARG_KEEPALIVE_TIME_MS] =
      ToMilliseconds(settings.keepalive_time);
  arguments[GRPC_ARG_KEEPALIVE_TIMEOUT_MS] =
      ToMilliseconds(settings.keepalive_timeout);
  arguments[GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS] = 1;
  arguments[GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS] =
      ToMilliseconds(kLeastPingInterval);
  arguments[GRPC_ARG_MAX_CONNECTION_IDLE_MS] =
      ToMilliseconds(settings.idle_timeout);
  arguments[GRPC_ARG_MAX_CONNECTION_AGE_MS] = ToMilliseconds(settings.max_age);
  arguments[GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS] =
      ToMilliseconds(settings.max_age_grace);
  arguments[GRPC_ARG_ENABLE_CHANNELZ] = settings.channelz ? 1 : 0;
  for (const std::string& text : settings.channel_arguments) {
    auto argument = ParseChannelArgument(text);
    if (argument.ok()) arguments[argument->name] = argument->value;
  }
  return arguments;
}

absl::Status CheckDuration(absl::string_view flag, absl::Duration value,
                           absl::Duration least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " = ", absl::FormatDuration(value), " is less than ",
      absl::FormatDuration(least), "; \"inf\" turns it off"));
}

}  // namespace

absl::StatusOr<ChannelArgument> ParseChannelArgument(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || !absl::StartsWith(text, "grpc.")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grpc_channel_argument = \"", text,
                     "\" is not name=value with one of gRPC's names, such as "
                     "grpc.http2.max_frame_size=16384"));
  }
  ChannelArgument argument;
  argument.name = std::string(text.substr(0, equals));
  const absl::string_view value = text.substr(equals + 1);
  int number = 0;
  if (absl::SimpleAtoi(value, &number)) {
    argument.value = number;
  } else {
    argument.value = std::string(value);
  }
  return argument;
}

absl::Status Validate(const GrpcSettings& settings) {
  if (settings.max_transport_bytes < kLeastTransportBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_transport_bytes = ", settings.max_transport_bytes,
                     " is less than ", kLeastTransportBytes));
  }
  const absl::Duration second = absl::Seconds(1);
  RETURN_IF_ERROR(
      CheckDuration("keepalive_time", settings.keepalive_time, second));
  RETURN_IF_ERROR(
      CheckDuration("keepalive_timeout", settings.keepalive_timeout, second));
  RETURN_IF_ERROR(
      CheckDuration("connection_idle_timeout", settings.idle_timeout, second));
  RETURN_IF_ERROR(
      CheckDuration("connection_max_age", settings.max_age, second));
  RETURN_IF_ERROR(CheckDuration("connection_max_age_grace",
                                settings.max_age_grace, absl::ZeroDuration()));
  for (const std::string& text : settings.channel_arguments) {
    RETURN_IF_ERROR(ParseChannelArgument(text).status());
  }
  return absl::OkStatus();
}

void RegisterGrpcServices() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
}

void Configure(const GrpcSettings& settings, int64_t max_message_bytes,
               grpc::ServerBuilder* builder) {
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  grpc::ResourceQuota quota("qgemm server");
  quota.Resize(static_cast<size_t>(settings.max_transport_bytes));
  quota.SetMaxThreads(kServiceThreads);
  builder->SetResourceQuota(quota);
  // One poller for reflection and channelz: threads that poll beside those of
  // the completion queues take events from them.
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  ChooseServices(settings, builder);
  for (const auto& [name, value] : ChannelArguments(settings)) {
    std::visit(
        [&, name = name](const auto& typed) {
          builder->AddChannelArgument(name, typed);
        },
        value);
  }
}

std::unique_ptr<ConnectionAcceptor> AddAcceptor(
    const std::shared_ptr<grpc::ServerCredentials>& credentials,
    grpc::ServerBuilder* builder) {
  return builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      credentials);
}

}  // namespace qgemm
