// SPDX-License-Identifier: Apache-2.0

#include "client/flags/connection_flags.h"

#include "flags/command_line.h"

namespace qgemm {

void ConnectionFlags::AddTo(CLI::App* app) {
  flags::AddOption(app, "server", &server,
                   "Address of the server: host:port, unix:path or "
                   "dns:///name:port; several servers with commas between "
                   "them");
  flags::AddOption(app, "tls_ca", &tls_ca,
                   "File of the authorities that the server's certificate must "
                   "lead to, in PEM; turns TLS on. unix: stays plaintext");
  flags::AddOption(app, "tls_client_cert", &tls_client_cert,
                   "File of the certificate that the server is shown");
  flags::AddOption(app, "tls_client_key", &tls_client_key,
                   "File of the key of --tls_client_cert");
  flags::AddOption(app, "tls_server_name", &tls_server_name,
                   "Name that the server's certificate must have; empty: the "
                   "host of --server");
  flags::AddOption(app, "token_file", &token_file,
                   "File of the token that calls carry; needs TLS, a Unix "
                   "socket or a loopback address");
}

absl::Status ConnectionFlags::Check() const {
  if (server.empty()) {
    return absl::InvalidArgumentError(
        "--server: must be host:port, unix:path or dns:///name:port");
  }
  if (tls_ca.empty() && (!tls_client_cert.empty() || !tls_client_key.empty() ||
                         !tls_server_name.empty())) {
    return absl::InvalidArgumentError(
        "--tls_client_cert, --tls_client_key and --tls_server_name need "
        "--tls_ca, which turns TLS on");
  }
  if (tls_client_cert.empty() != tls_client_key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_client_cert and --tls_client_key go together");
  }
  return absl::OkStatus();
}

void ConnectionFlags::ApplyTo(ClientOptions* options) const {
  options->token_file = token_file;
  if (tls_ca.empty()) return;
  TlsOptions& tls = options->tls.emplace();
  tls.ca_file = tls_ca;
  tls.certificate_file = tls_client_cert;
  tls.key_file = tls_client_key;
  tls.server_name = tls_server_name;
}

}  // namespace qgemm
