// SPDX-License-Identifier: Apache-2.0
//
// gRPC channels to one server: the check of its address and the arguments that
// every channel of the client's has.

#ifndef QGEMM_CLIENT_CHANNELS_H_
#define QGEMM_CLIENT_CHANNELS_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// INVALID_ARGUMENT unless `target` is "host:port" or "unix:path".
absl::Status CheckTarget(absl::string_view target);

// Each channel has a connection of its own, and knows no proxy.
grpc::ChannelArguments ChannelArgumentsFor(int64_t max_message_bytes);

Channels CreateChannels(const std::string& target, int count,
                        int64_t max_message_bytes);

// Connects all; false if one is not connected by the deadline.
bool WaitForChannels(const Channels& channels, absl::Time deadline);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CHANNELS_H_
