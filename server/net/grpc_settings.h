// SPDX-License-Identifier: Apache-2.0
//
// Settings of gRPC's server that hold for every connection and every RPC: its
// defaults let one client take all memory or all threads.

#ifndef QGEMM_SERVER_NET_GRPC_SETTINGS_H_
#define QGEMM_SERVER_NET_GRPC_SETTINGS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

struct GrpcSettings {
  // Bounds gRPC's own buffers, messages that have arrived in part among them,
  // for all connections. Beyond it gRPC reads less, then ends calls.
  // Sixteen requests of 28 MiB at once need more than 256 MiB: half of them
  // ended with RESOURCE_EXHAUSTED there.
  int64_t max_transport_bytes = int64_t{512} << 20;
  // After so long without a byte the client is asked whether it is there, and
  // its connection closed if it does not answer in time.
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Connections without a call for so long are told to go away.
  absl::Duration idle_timeout = absl::Minutes(10);
  // So are those of this age, and closed after the grace.
  absl::Duration max_age = absl::InfiniteDuration();
  absl::Duration max_age_grace = absl::Minutes(10);
  bool reflection = true;
  // Tells every client the addresses of all.
  bool channelz = false;
  // Each "name=value"; replaces what the other settings make of the name.
  std::vector<std::string> channel_arguments;
};

// One of gRPC's channel arguments (grpc/grpc_types.h).
struct ChannelArgument {
  std::string name;
  std::variant<int, std::string> value;
};

// Reads "name=value". A value that is a whole number becomes one. Errors:
// INVALID_ARGUMENT names the flag and the text.
absl::StatusOr<ChannelArgument> ParseChannelArgument(absl::string_view text);

// Errors: INVALID_ARGUMENT names the flag, its value and its bounds.
absl::Status Validate(const GrpcSettings& settings);

// The part of max_transport_bytes that messages in part may take: beyond the
// whole gRPC closes connections that are idle.
inline int64_t MaxTransitBytes(const GrpcSettings& settings) {
  return settings.max_transport_bytes / 2;
}

// Registers the services that a server may have, for the process; before the
// first builder is made.
void RegisterGrpcServices();

// Applies valid settings, and turns compression off: gRPC checks a message's
// size before and after it inflates it, not meanwhile.
void Configure(const GrpcSettings& settings, int64_t max_message_bytes,
               grpc::ServerBuilder* builder);

// Through it gRPC takes connections that were accepted elsewhere.
using ConnectionAcceptor = grpc::experimental::ExternalConnectionAcceptor;

std::unique_ptr<ConnectionAcceptor> AddAcceptor(
    const std::shared_ptr<grpc::ServerCredentials>& credentials,
    grpc::ServerBuilder* builder);

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_GRPC_SETTINGS_H_
