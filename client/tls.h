// SPDX-License-Identifier: Apache-2.0
//
// TLS of a client's connections: credentials from options, and what a failed
// handshake means.

#ifndef QGEMM_CLIENT_TLS_H_
#define QGEMM_CLIENT_TLS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "qgemm/client_options.h"

namespace qgemm {

// Credentials that a client's channels share. Files are read again every second
// on a thread of gRPC's that ends with them.
// Errors: INVALID_ARGUMENT (files and texts mixed, no authority, a certificate
// without key or a key without certificate); NOT_FOUND (an unreadable file).
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentialsOf(
    const TlsOptions& options);

// gRPC's reason why a channel does not connect, followed by what it means where
// that is known. `tls` is that of the channel; nullopt: plaintext.
std::string ExplainConnectFailure(absl::string_view reason,
                                  const std::optional<TlsOptions>& tls);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_TLS_H_
