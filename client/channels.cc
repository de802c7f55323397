// SPDX-License-Identifier: Apache-2.0
//
// Channels are insecure: the server has neither TLS nor authentication
// (docs/operations.md).

#include "client/channels.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/un.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace qgemm {

absl::Status CheckTarget(absl::string_view target) {
  constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  absl::string_view path = target;
  if (absl::ConsumePrefix(&path, "unix:") && !path.empty()) {
    if (path.size() <= kMaxPathBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("target is '", target, "'; the path has ", path.size(),
                     " bytes, a Unix socket's at most ", kMaxPathBytes));
  }
  const size_t colon = target.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      colon + 1 == target.size() || target.find(']', colon) != target.npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "target is '", target, "'; it must be host:port or unix:path"));
  }
  return absl::OkStatus();
}

grpc::ChannelArguments ChannelArgumentsFor(int64_t max_message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Otherwise channels to one target share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

Channels CreateChannels(const std::string& target, int count,
                        int64_t max_message_bytes) {
  Channels channels;
  for (int i = 0; i < count; ++i) {
    channels.push_back(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                  ChannelArgumentsFor(max_message_bytes)));
  }
  return channels;
}

bool WaitForChannels(const Channels& channels, absl::Time deadline) {
  for (const auto& channel : channels) channel->GetState(true);
  for (const auto& channel : channels) {
    if (!channel->WaitForConnected(absl::ToChronoTime(deadline))) return false;
  }
  return true;
}

}  // namespace qgemm
