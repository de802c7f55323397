// SPDX-License-Identifier: Apache-2.0
//
// Flags of TLS, and what a "tls:" address needs of them and of others.

#ifndef QGEMM_SERVER_TLS_FLAGS_H_
#define QGEMM_SERVER_TLS_FLAGS_H_

#include "absl/status/status.h"
#include "server/server_options.h"
#include "server/tls/certificate_set.h"

namespace CLI {
class App;
}  // namespace CLI

namespace qgemm {

// The paths must outlive the command line.
void AddTlsFlags(CLI::App* app, CertificatePaths* paths);

// Returns OK, or INVALID_ARGUMENT with a "tls:" address and the flag that it
// lacks. Whether the files are any good is found out at the start.
absl::Status CheckTls(const ServerOptions& options);

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_FLAGS_H_
