// SPDX-License-Identifier: Apache-2.0

#include "server/metrics/http_message.h"

#include <arpa/inet.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace qgemm {
namespace {

HttpResponse Refuse(int code, absl::string_view reason) {
  HttpResponse refused;
  refused.code = code;
  refused.body = absl::StrCat(reason, "\n");
  return refused;
}

absl::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

// Returns "host" of "host", "host:port" or "[v6]:port"; brackets stay.
absl::string_view WithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    return host.substr(0, host.find(']') + 1);  // npos + 1 is 0: ""
  }
  return host.substr(0, host.find(':'));
}

bool IsAddress(std::string host) {
  in6_addr address;
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return true;
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') {
    return false;
  }
  host = host.substr(1, host.size() - 2);
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

HttpResponse ParseHttpHead(absl::string_view head, HttpRequest* request) {
  const std::vector<absl::string_view> lines = absl::StrSplit(head, '\n');
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(lines.front()), ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.") ||
      !absl::StartsWith(words[1], "/")) {
    return Refuse(400, "expected METHOD /PATH HTTP/1.1");
  }
  request->method = std::string(words[0]);
  request->path = std::string(words[1].substr(0, words[1].find('?')));
  int hosts = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == absl::string_view::npos ||
        !absl::EqualsIgnoreCase(lines[i].substr(0, colon), "host")) {
      continue;
    }
    ++hosts;
    request->host = absl::AsciiStrToLower(
        WithoutPort(absl::StripAsciiWhitespace(lines[i].substr(colon + 1))));
  }
  if (hosts > 1) return Refuse(400, "expected one Host header");
  if (words[0] != "GET" && words[0] != "HEAD") {
    return Refuse(405, "only GET and HEAD are served");
  }
  return HttpResponse();
}

std::string ToHttpText(const HttpResponse& response, absl::string_view method) {
  std::string text = absl::StrCat(
      "HTTP/1.1 ", response.code, " ", ReasonOf(response.code),
      "\r\nConnection: close\r\nContent-Length: ", response.body.size(),
      "\r\nContent-Type: ", response.content_type,
      "\r\nContent-Security-Policy: ", response.security_policy,
      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
      "\r\nReferrer-Policy: no-referrer\r\n");
  if (response.code == 405) absl::StrAppend(&text, "Allow: GET, HEAD\r\n");
  absl::StrAppend(&text, "\r\n");
  if (method != "HEAD") absl::StrAppend(&text, response.body);
  return text;
}

bool IsHostAllowed(absl::string_view host, absl::string_view configured) {
  return host.empty() || host == "localhost" || host == configured ||
         IsAddress(std::string(host));
}

}  // namespace qgemm
