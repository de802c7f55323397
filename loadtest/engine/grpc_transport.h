// SPDX-License-Identifier: Apache-2.0
//
// Requests over gRPC: TCP or a Unix socket.

#ifndef QGEMM_LOADTEST_ENGINE_GRPC_TRANSPORT_H_
#define QGEMM_LOADTEST_ENGINE_GRPC_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"

namespace qgemm {

// Whether connections can be cut; those that can do not reconnect by
// themselves when the server goes.
enum class Connections : uint8_t { kLasting, kCuttable };

struct GrpcTransportOptions {
  std::string target;  // host:port or unix:path
  int channels = 1;    // of one transport
  Connections connections = Connections::kLasting;
  int64_t max_message_bytes = int64_t{64} << 20;
  absl::Duration connect_timeout = absl::Seconds(10);
  // Requests of each place are those of a client of their own, whose id begins
  // with this. Empty: no ids.
  std::string client_id_prefix;
};

// Every transport has a completion queue and a thread of its own; places share
// its channels in turn.
class GrpcTransportFactory final : public TransportFactory {
 public:
  // `messages` must outlive the factory and its transports.
  GrpcTransportFactory(GrpcTransportOptions options,
                       const MessageSet* messages);

  // Returns once all channels are connected. Errors: INVALID_ARGUMENT (the
  // target), UNAVAILABLE.
  absl::StatusOr<std::unique_ptr<Transport>> Open(int places,
                                                  RequestSink* sink) override;

 private:
  const GrpcTransportOptions options_;
  const MessageSet* const messages_;
  int opened_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_GRPC_TRANSPORT_H_
