// SPDX-License-Identifier: Apache-2.0
//
// gRPC channels to a client's servers: whom they reach, how they are secured,
// and the arguments that every channel of the client's has.

#ifndef QGEMM_CLIENT_CHANNELS_H_
#define QGEMM_CLIENT_CHANNELS_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/targets.h"
#include "client/token.h"
#include "qgemm/client_options.h"

namespace qgemm {

// Each channel has a connection of its own, and knows no proxy.
grpc::ChannelArguments ChannelArgumentsFor(int64_t max_message_bytes);

struct ServerChannel {
  std::shared_ptr<grpc::Channel> channel;
  size_t server = 0;  // its place among the connector's servers
};

using Channels = std::vector<ServerChannel>;

// The way to a client's servers. Immutable; copies share credentials and token.
class Connector {
 public:
  // Takes tls, token, token_file and max_message_bytes of the options. Errors:
  // those of ResolveTargets, TlsCredentialsOf and TokenSource::Create;
  // INVALID_ARGUMENT if the token would leave the machine in plaintext.
  static absl::StatusOr<Connector> Create(const std::string& targets,
                                          const ClientOptions& options);

  const std::vector<ServerTarget>& servers() const { return servers_; }
  // Null: calls carry no token.
  const std::shared_ptr<TokenSource>& token() const { return token_; }

  // `count` channels to each server, those of all servers in turn. They connect
  // when they are used.
  Channels Connect(int count) const;

  // gRPC's reason why a server cannot be reached, with its meaning.
  std::string Explain(size_t server, const absl::Status& reason) const;

 private:
  Connector() = default;

  bool UsesTls(const ServerTarget& server) const {
    return credentials_ != nullptr && !server.is_unix;
  }
  std::shared_ptr<grpc::Channel> ChannelTo(const ServerTarget& server) const;

  std::vector<ServerTarget> servers_;
  std::optional<TlsOptions> tls_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;  // of TLS, or null
  std::shared_ptr<TokenSource> token_;
  int64_t max_message_bytes_ = 0;
};

// Connects. True if all are connected; or, if they are of several servers, once
// some are and all others have tried. At the deadline: true if some are, of
// several servers.
bool WaitForChannels(const Channels& channels, absl::Time deadline);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CHANNELS_H_
