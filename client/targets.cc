// SPDX-License-Identifier: Apache-2.0
//
// One function a form of target.

#include "client/targets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

absl::Status Malformed(absl::string_view target) {
  return absl::InvalidArgumentError(
      absl::StrCat("target is '", target,
                   "'; it must be host:port, unix:path or dns:///name:port, "
                   "several with commas between them"));
}

// `text` is host:port; the errors name `target`.
absl::StatusOr<HostPort> SplitPort(absl::string_view text,
                                   absl::string_view target) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      colon + 1 == text.size() || text.find(']', colon) != text.npos) {
    return Malformed(target);
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return Malformed(target);
  }
  if (host.empty()) return Malformed(target);
  return HostPort{std::string(host), std::string(text.substr(colon + 1))};
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr ip = {};
  if (inet_pton(AF_INET, host.c_str(), &ip) == 1) {
    return ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr ip6 = {};
  return inet_pton(AF_INET6, host.c_str(), &ip6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&ip6);
}

absl::StatusOr<ServerTarget> UnixServer(absl::string_view target) {
  constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
  const absl::string_view path = absl::StripPrefix(target, "unix:");
  if (path.empty()) return Malformed(target);
  if (path.size() <= kMaxPathBytes) {
    return ServerTarget{std::string(target), "", /*is_unix=*/true,
                        /*is_local=*/true};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("target is '", target, "'; the path has ", path.size(),
                   " bytes, a Unix socket's at most ", kMaxPathBytes));
}

// The server at one address of a name.
absl::StatusOr<ServerTarget> ServerAt(const addrinfo& found,
                                      const HostPort& name) {
  char text[NI_MAXHOST];
  const int error = getnameinfo(found.ai_addr, found.ai_addrlen, text,
                                sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("an address of ", name.host, ": ", gai_strerror(error)));
  }
  const std::string address =
      found.ai_family == AF_INET6
          ? absl::StrCat("ipv6:[", text, "]:", name.port)
          : absl::StrCat("ipv4:", text, ":", name.port);
  return ServerTarget{address, name.host, /*is_unix=*/false, IsLoopback(text)};
}

absl::StatusOr<std::vector<ServerTarget>> ServersOfName(
    absl::string_view target) {
  ASSIGN_OR_RETURN(const HostPort name,
                   SplitPort(absl::StripPrefix(target, "dns:///"), target));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(name.host.c_str(), name.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("look up ", target, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             freeaddrinfo);
  std::vector<ServerTarget> servers;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    ASSIGN_OR_RETURN(ServerTarget server, ServerAt(*each, name));
    servers.push_back(std::move(server));
  }
  return servers;
}

absl::StatusOr<std::vector<ServerTarget>> ServersOf(absl::string_view target) {
  std::vector<ServerTarget> servers;
  if (absl::StartsWith(target, "unix:")) {
    ASSIGN_OR_RETURN(ServerTarget server, UnixServer(target));
    servers.push_back(std::move(server));
  } else if (absl::StartsWith(target, "dns:///")) {
    return ServersOfName(target);
  } else {
    ASSIGN_OR_RETURN(const HostPort name, SplitPort(target, target));
    servers.push_back(
        {std::string(target), "", /*is_unix=*/false, IsLoopback(name.host)});
  }
  return servers;
}

}  // namespace

absl::StatusOr<std::vector<ServerTarget>> ResolveTargets(
    absl::string_view targets) {
  std::vector<ServerTarget> all;
  for (absl::string_view target : absl::StrSplit(targets, ',')) {
    ASSIGN_OR_RETURN(std::vector<ServerTarget> servers, ServersOf(target));
    for (ServerTarget& server : servers) {
      const bool is_known =
          std::any_of(all.begin(), all.end(), [&server](const auto& other) {
            return other.address == server.address;
          });
      if (is_known) {
        return absl::InvalidArgumentError(absl::StrCat(
            "target is '", targets, "'; it names ", server.address, " twice"));
      }
      all.push_back(std::move(server));
    }
  }
  if (all.size() <= kMaxServers) return all;
  return absl::InvalidArgumentError(
      absl::StrCat("target is '", targets, "'; it has ", all.size(),
                   " servers, a client at most ", kMaxServers));
}

}  // namespace qgemm
