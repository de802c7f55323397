// SPDX-License-Identifier: Apache-2.0
//
// Connector, and the wait for its channels.

#include "client/channels.h"

#include <grpcpp/create_channel.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/tls.h"

namespace qgemm {
namespace {

// A server that was gone for long is tried again so soon after it is back;
// gRPC's own bound is two minutes.
constexpr absl::Duration kMaxReconnectPause = absl::Seconds(5);
// A host that went away without a word is noticed, while calls wait for it,
// within the sum of these; qgemm's servers take pings every 10 seconds.
constexpr absl::Duration kKeepaliveTime = absl::Seconds(20);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);
// Channels that all failed are looked at so often until one is connected.
constexpr absl::Duration kFailedPoll = absl::Milliseconds(20);

// A token is sent to who can prove who it is, or is on this machine.
absl::Status CheckTokenIsSafe(const std::vector<ServerTarget>& servers) {
  std::vector<std::string> exposed;
  for (const ServerTarget& server : servers) {
    if (!server.is_local) exposed.push_back(server.address);
  }
  if (exposed.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a token without TLS goes to unix: and loopback targets alone, and ",
      absl::StrJoin(exposed, ", "),
      " is none; set ClientOptions::tls, or give no token"));
}

void SetMilliseconds(const char* name, absl::Duration value,
                     grpc::ChannelArguments* arguments) {
  arguments->SetInt(name, static_cast<int>(absl::ToInt64Milliseconds(value)));
}

bool AreOfOneServer(const Channels& channels) {
  return std::all_of(channels.begin(), channels.end(),
                     [](const auto& each) { return each.server == 0; });
}

}  // namespace

grpc::ChannelArguments ChannelArgumentsFor(int64_t max_message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Otherwise channels to one target share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  SetMilliseconds(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectPause,
                  &arguments);
  return arguments;
}

absl::StatusOr<Connector> Connector::Create(const std::string& targets,
                                            const ClientOptions& options) {
  Connector connector;
  ASSIGN_OR_RETURN(connector.servers_, ResolveTargets(targets));
  ASSIGN_OR_RETURN(connector.token_,
                   TokenSource::Create(options.token, options.token_file));
  connector.tls_ = options.tls;
  connector.max_message_bytes_ = options.max_message_bytes;
  if (options.tls.has_value()) {
    ASSIGN_OR_RETURN(connector.credentials_, TlsCredentialsOf(*options.tls));
  } else if (connector.token_ != nullptr) {
    RETURN_IF_ERROR(CheckTokenIsSafe(connector.servers_));
  }
  return connector;
}

std::shared_ptr<grpc::Channel> Connector::ChannelTo(
    const ServerTarget& server) const {
  grpc::ChannelArguments arguments = ChannelArgumentsFor(max_message_bytes_);
  if (!server.is_local) {
    SetMilliseconds(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTime, &arguments);
    SetMilliseconds(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout,
                    &arguments);
  }
  if (!UsesTls(server)) {
    return grpc::CreateCustomChannel(
        server.address, grpc::InsecureChannelCredentials(), arguments);
  }
  const std::string& name =
      tls_->server_name.empty() ? server.certificate_name : tls_->server_name;
  if (!name.empty()) arguments.SetSslTargetNameOverride(name);
  return grpc::CreateCustomChannel(server.address, credentials_, arguments);
}

Channels Connector::Connect(int count) const {
  Channels channels;
  for (int i = 0; i < count; ++i) {
    for (size_t server = 0; server < servers_.size(); ++server) {
      channels.push_back({ChannelTo(servers_[server]), server});
    }
  }
  return channels;
}

std::string Connector::Explain(size_t server,
                               const absl::Status& reason) const {
  return ExplainConnectFailure(
      reason.message(),
      UsesTls(servers_[server]) ? tls_ : std::optional<TlsOptions>());
}

bool WaitForChannels(const Channels& channels, absl::Time deadline) {
  const bool all_must = AreOfOneServer(channels);
  while (true) {
    bool some_ready = false;
    bool all_ready = true;
    const ServerChannel* pending = nullptr;  // neither connected nor failed
    for (const ServerChannel& each : channels) {
      const grpc_connectivity_state state = each.channel->GetState(true);
      const bool ready = state == GRPC_CHANNEL_READY;
      some_ready |= ready;
      all_ready &= ready;
      if (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
        pending = &each;
      }
    }
    if (all_ready || (some_ready && pending == nullptr && !all_must)) {
      return true;
    }
    const absl::Time now = absl::Now();
    if (now >= deadline) return some_ready && !all_must;
    const ServerChannel& next = pending != nullptr ? *pending : channels[0];
    const absl::Time wake = std::min(deadline, now + kFailedPoll);
    next.channel->WaitForStateChange(next.channel->GetState(false),
                                     absl::ToChronoTime(wake));
  }
}

}  // namespace qgemm
