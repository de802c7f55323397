// SPDX-License-Identifier: Apache-2.0
//
// The part of HTTP/1 that the metrics endpoint speaks: requests without a body,
// one a connection. Sockets and limits of time are in http_server.h.

#ifndef QGEMM_SERVER_METRICS_HTTP_MESSAGE_H_
#define QGEMM_SERVER_METRICS_HTTP_MESSAGE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace qgemm {

// A request's line and headers may have this many bytes.
inline constexpr size_t kMaxHttpHeadBytes = 8192;

struct HttpRequest {
  std::string method;  // as sent, "GET"
  std::string path;    // from its first slash, without the query; not decoded
  std::string host;    // of the Host header, without the port; may be empty
};

struct HttpResponse {
  int code = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  // Content-Security-Policy: scripts, styles and frames that a browser allows.
  std::string security_policy = "default-src 'none'; frame-ancestors 'none'";
};

// Parses the line and the headers of a request up to the empty line. On success
// returns code 200 and fills `request`; else the code that refuses it, with a
// reason in the body.
HttpResponse ParseHttpHead(absl::string_view head, HttpRequest* request);

// Returns the bytes to send; for "HEAD" without the body. The connection is to
// be closed after them.
std::string ToHttpText(const HttpResponse& response, absl::string_view method);

// True if a browser that was sent to `host` means this machine by it: an
// address, "localhost", or `configured`. A page of another site that has its
// own name resolved to this machine's address sends its own name.
bool IsHostAllowed(absl::string_view host, absl::string_view configured);

}  // namespace qgemm

#endif  // QGEMM_SERVER_METRICS_HTTP_MESSAGE_H_
