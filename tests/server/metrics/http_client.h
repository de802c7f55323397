// SPDX-License-Identifier: Apache-2.0
//
// A connection to a loopback port that sends what a test likes, and no more.

#ifndef QGEMM_TESTS_SERVER_METRICS_HTTP_CLIENT_H_
#define QGEMM_TESTS_SERVER_METRICS_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"

namespace qgemm {

class HttpClient {
 public:
  HttpClient() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit HttpClient(int port) : HttpClient() { Connect(port); }

  // connected() is false afterwards if nobody listens.
  void Connect(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }

  // True unless the server has closed the connection.
  bool Send(absl::string_view text) const {
    return send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // Everything until the server closes the connection.
  std::string ReadAll() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = recv(socket_.get(), buffer, sizeof(buffer), 0)) > 0;) {
      text.append(buffer, n);
    }
    return text;
  }

 private:
  FileDescriptor socket_;
  bool connected_ = false;
};

// The answer to GET `path`, header included; empty if nobody listens.
inline std::string HttpGet(int port, absl::string_view path,
                           absl::string_view headers = "Host: localhost\r\n") {
  const HttpClient client(port);
  if (!client.connected()) return "";
  client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\n", headers, "\r\n"));
  return client.ReadAll();
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SERVER_METRICS_HTTP_CLIENT_H_
