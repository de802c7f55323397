// SPDX-License-Identifier: Apache-2.0
//
// Requests over streams of the client library, one stream a connection.

#ifndef QGEMM_LOADTEST_ENGINE_STREAM_TRANSPORT_H_
#define QGEMM_LOADTEST_ENGINE_STREAM_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"

namespace qgemm {

struct StreamTransportOptions {
  std::string target;  // host:port or unix:path
  int channels = 1;    // of one transport
  int64_t max_message_bytes = int64_t{64} << 20;
  absl::Duration connect_timeout = absl::Seconds(10);
};

// Every transport has a client with a thread of its own; places share its
// streams in turn. A stream that breaks stays so: what is sent on it ends with
// the reason. Connections cannot be cut.
class StreamTransportFactory final : public TransportFactory {
 public:
  // `messages`, Gemms all, must outlive the factory and its transports.
  StreamTransportFactory(StreamTransportOptions options,
                         const MessageSet* messages);

  // Errors: INVALID_ARGUMENT (the target), UNAVAILABLE.
  absl::StatusOr<std::unique_ptr<Transport>> Open(int places,
                                                  RequestSink* sink) override;

 private:
  const StreamTransportOptions options_;
  const MessageSet* const messages_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_STREAM_TRANSPORT_H_
