// SPDX-License-Identifier: Apache-2.0
//
// Serves pages that are made at once over HTTP/1, on one thread that waits for
// all connections: one that sends half a request, or does not read its answer,
// costs the others nothing. Requests are parsed in http_message.h.

#ifndef QGEMM_SERVER_METRICS_HTTP_SERVER_H_
#define QGEMM_SERVER_METRICS_HTTP_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "server/metrics/http_message.h"

namespace qgemm {

// Listens from Start until destruction.
class HttpServer {
 public:
  // Runs on the server's thread and must not block.
  using Handler = absl::AnyInvocable<HttpResponse(const HttpRequest&)>;

  // Beyond this many connections the one that has been without a complete
  // request for longest is closed for each further one.
  static constexpr size_t kMaxConnections = 128;
  // Time for a request's headers, and for the client to read the answer.
  static constexpr absl::Duration kRequestTimeout = absl::Seconds(2);
  static constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);

  // `host` is a numeric address; port 0 takes a free one. `clock`, which must
  // outlive the server, decides about the timeouts.
  // Errors: INVALID_ARGUMENT (no such address), FAILED_PRECONDITION (it cannot
  // be bound).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& host, int port, Handler handler, const Clock* clock);

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // Returns the port it listens on.
  int port() const { return port_; }

 private:
  struct Connection;
  enum class Progress { kOpen, kEnded };

  HttpServer(FileDescriptor listener, int port, Handler handler,
             const Clock* clock);

  void Run();
  // Waits for the stop, connections and the listener; false at the stop.
  bool Wait();
  void Serve();
  void AcceptSome();
  void MakeRoom();
  Progress Advance(Connection* connection, int events);
  Progress Read(Connection* connection);
  Progress Write(Connection* connection);
  Progress Discard(Connection* connection);
  void Answer(Connection* connection, const HttpResponse& response,
              absl::string_view method);

  const FileDescriptor listener_;
  const FileDescriptor stop_;
  const int port_;
  Handler handler_;
  const Clock* const clock_;
  // Used by the thread alone: connections by age, and the events of each at the
  // last wait.
  std::vector<Connection> connections_;
  std::vector<int> events_;
  bool listener_ready_ = false;
  bool out_of_files_ = false;
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_HTTP_SERVER_H_
