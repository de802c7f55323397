// SPDX-License-Identifier: Apache-2.0
//
// Options of every program that is a client: which servers it calls, and who
// they and it are to each other.

#ifndef QGEMM_CLIENT_FLAGS_CONNECTION_FLAGS_H_
#define QGEMM_CLIENT_FLAGS_CONNECTION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "qgemm/client_options.h"

namespace qgemm {

// There is no option for a token's text: command lines and reports are read by
// others.
struct ConnectionFlags {
  std::string server = "127.0.0.1:50051";
  std::string tls_ca;  // empty: plaintext
  std::string tls_client_cert;
  std::string tls_client_key;
  std::string tls_server_name;
  std::string token_file;

  // This must outlive the parsing.
  void AddTo(CLI::App* app);

  // After parsing. INVALID_ARGUMENT if no server is named, or an option of TLS
  // is given without --tls_ca.
  absl::Status Check() const;

  // Sets the options of TLS and of the token.
  void ApplyTo(ClientOptions* options) const;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_FLAGS_CONNECTION_FLAGS_H_
