// SPDX-License-Identifier: Apache-2.0
//
// Each connection goes through three phases: its request is read, the answer is
// written, and what the client still sends is thrown away until it has closed
// too, since a close with unread bytes would take the answer back.

#include "server/metrics/http_server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// Between two looks at the timeouts.
constexpr int kTickMs = 100;
// Accepted at a time, before those that are open are served again.
constexpr int kAcceptsAtATime = 16;
constexpr absl::Duration kDiscardTimeout = absl::Seconds(1);

absl::Status CannotListen(absl::string_view operation) {
  return absl::FailedPreconditionError(
      absl::StrCat(operation, ": ", strerror(errno)));
}

absl::StatusOr<FileDescriptor> Listen(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) !=
      0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", host, "\" is not a numeric address"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> address(found,
                                                               freeaddrinfo);
  FileDescriptor listener(socket(
      address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return CannotListen("socket");
  // An address whose old connections are still in TIME_WAIT is free.
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0) {
    return CannotListen("bind");
  }
  if (listen(listener.get(), SOMAXCONN) != 0) return CannotListen("listen");
  return listener;
}

absl::StatusOr<int> PortOf(const FileDescriptor& listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address),
                  &size) != 0) {
    return CannotListen("getsockname");
  }
  // The port lies at the same place in both.
  static_assert(
      offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port),
      "the port's place depends on the family");
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

bool MustWait() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

struct HttpServer::Connection {
  enum class Phase { kReading, kWriting, kDiscarding };

  FileDescriptor socket;
  absl::Time deadline;  // of its phase
  Phase phase = Phase::kReading;
  std::string text = {};  // the request so far, then the answer
  size_t sent = 0;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& host, int port, Handler handler, const Clock* clock) {
  ASSIGN_OR_RETURN(FileDescriptor listener, Listen(host, port));
  ASSIGN_OR_RETURN(const int bound, PortOf(listener));
  std::unique_ptr<HttpServer> server(
      new HttpServer(std::move(listener), bound, std::move(handler), clock));
  if (!server->stop_.valid()) return CannotListen("eventfd");
  server->thread_ = std::thread([server = server.get()] { server->Run(); });
  return server;
}

HttpServer::HttpServer(FileDescriptor listener, int port, Handler handler,
                       const Clock* clock)
    : listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      port_(port),
      handler_(std::move(handler)),
      clock_(clock) {}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void HttpServer::Run() {
  while (Wait()) {
    Serve();
    if (listener_ready_) AcceptSome();
  }
}

bool HttpServer::Wait() {
  std::vector<pollfd> waited;
  for (const Connection& connection : connections_) {
    const bool writes = connection.phase == Connection::Phase::kWriting;
    waited.push_back({connection.socket.get(),
                      static_cast<int16_t>(writes ? POLLOUT : POLLIN), 0});
  }
  waited.push_back({stop_.get(), POLLIN, 0});
  // A connection that waits for a file would wake the thread over and over.
  waited.push_back({out_of_files_ ? -1 : listener_.get(), POLLIN, 0});
  const bool ticks = out_of_files_ || !connections_.empty();
  out_of_files_ = false;
  poll(waited.data(), waited.size(), ticks ? kTickMs : -1);
  listener_ready_ = waited.back().revents != 0;
  waited.pop_back();
  const bool stopped = waited.back().revents != 0;
  waited.pop_back();
  events_.clear();
  for (const pollfd& one : waited) events_.push_back(one.revents);
  return !stopped;
}

void HttpServer::Serve() {
  const absl::Time now = clock_->Now();
  std::vector<Connection> open;
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (events_[i] != 0 &&
        Advance(&connection, events_[i]) == Progress::kEnded) {
      continue;
    }
    if (now < connection.deadline) open.push_back(std::move(connection));
  }
  connections_ = std::move(open);
}

void HttpServer::AcceptSome() {
  for (int i = 0; i < kAcceptsAtATime; ++i) {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (MustWait() || errno == ECONNABORTED) return;
      // Most likely EMFILE: another connection's file will do.
      out_of_files_ = connections_.empty();
      if (!connections_.empty()) MakeRoom();
      return;
    }
    if (connections_.size() >= kMaxConnections) MakeRoom();
    connections_.push_back(
        {std::move(socket), clock_->Now() + kRequestTimeout});
  }
}

void HttpServer::MakeRoom() {
  auto victim = std::find_if(connections_.begin(), connections_.end(),
                             [](const Connection& one) {
                               return one.phase != Connection::Phase::kWriting;
                             });
  if (victim == connections_.end()) victim = connections_.begin();
  connections_.erase(victim);
}

HttpServer::Progress HttpServer::Advance(Connection* connection, int events) {
  switch (connection->phase) {
    case Connection::Phase::kReading:
      return Read(connection);
    case Connection::Phase::kWriting:
      if ((events & POLLOUT) == 0) return Progress::kEnded;
      return Write(connection);
    case Connection::Phase::kDiscarding:
      return Discard(connection);
  }
  return Progress::kEnded;
}

HttpServer::Progress HttpServer::Read(Connection* connection) {
  char bytes[4096];
  const ssize_t count = recv(connection->socket.get(), bytes, sizeof(bytes), 0);
  if (count <= 0) {
    return count < 0 && MustWait() ? Progress::kOpen : Progress::kEnded;
  }
  std::string& text = connection->text;
  text.append(bytes, count);
  size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) end = text.find("\n\n");
  if (end == std::string::npos && text.size() < kMaxHttpHeadBytes) {
    return Progress::kOpen;
  }
  if (end == std::string::npos) {
    HttpResponse refused;
    refused.code = 431;
    refused.body = absl::StrCat("a request's headers may have ",
                                kMaxHttpHeadBytes, " bytes\n");
    Answer(connection, refused, "");
  } else {
    HttpRequest request;
    HttpResponse response =
        ParseHttpHead(absl::string_view(text).substr(0, end), &request);
    if (response.code == 200) response = handler_(request);
    Answer(connection, response, request.method);
  }
  return Write(connection);
}

void HttpServer::Answer(Connection* connection, const HttpResponse& response,
                        absl::string_view method) {
  connection->text = ToHttpText(response, method);
  connection->phase = Connection::Phase::kWriting;
  connection->deadline = clock_->Now() + kAnswerTimeout;
}

HttpServer::Progress HttpServer::Write(Connection* connection) {
  const std::string& text = connection->text;
  while (connection->sent < text.size()) {
    const ssize_t count =
        send(connection->socket.get(), text.data() + connection->sent,
             text.size() - connection->sent, MSG_NOSIGNAL);
    if (count < 0) {
      return MustWait() ? Progress::kOpen : Progress::kEnded;
    }
    connection->sent += count;
  }
  shutdown(connection->socket.get(), SHUT_WR);
  connection->phase = Connection::Phase::kDiscarding;
  connection->deadline = clock_->Now() + kDiscardTimeout;
  return Progress::kOpen;
}

HttpServer::Progress HttpServer::Discard(Connection* connection) {
  char bytes[4096];
  const ssize_t count = recv(connection->socket.get(), bytes, sizeof(bytes), 0);
  return count > 0 || (count < 0 && MustWait()) ? Progress::kOpen
                                                : Progress::kEnded;
}

}  // namespace qgemm
