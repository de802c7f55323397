// SPDX-License-Identifier: Apache-2.0
//
// The addresses of the server's options, opened.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/net/listen.h"
#include "server/part_options.h"

namespace qgemm {

absl::StatusOr<std::string> ResolveMetricsListen(const std::string& text) {
  ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
  if (address.kind != ListenAddress::Kind::kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_listen = \"", text,
                     "\" is not host:port; the endpoint serves TCP only"));
  }
  ASSIGN_OR_RETURN(address, Resolve(address));
  return address.ToString();
}

absl::StatusOr<SocketFileOptions> ToSocketFile(const ServerOptions& options) {
  SocketFileOptions file;
  ASSIGN_OR_RETURN(file.mode, ParseSocketMode(options.socket_mode));
  ASSIGN_OR_RETURN(file.group, ParseSocketGroup(options.socket_group));
  return file;
}

absl::StatusOr<std::vector<Listener>> OpenListeners(
    const ServerOptions& options) {
  ASSIGN_OR_RETURN(const SocketFileOptions file, ToSocketFile(options));
  std::vector<Listener> listeners;
  for (const std::string& text : options.listen) {
    ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
    ASSIGN_OR_RETURN(address, Resolve(address));
    ASSIGN_OR_RETURN(Listener listener, Listener::Open(address, file));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

}  // namespace qgemm
