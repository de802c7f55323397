// SPDX-License-Identifier: Apache-2.0
//
// One TLS handshake at a time, by OpenSSL alone: what gRPC's clients do not
// show, and versions that they do not speak.

#ifndef QGEMM_TESTS_SUPPORT_TLS_CLIENT_H_
#define QGEMM_TESTS_SUPPORT_TLS_CLIENT_H_

#include <string>

#include "base/file_descriptor.h"
#include "tests/support/certificates.h"

namespace qgemm {

// Connects to a port of 127.0.0.1.
FileDescriptor ConnectToPort(int port);

// Waits until the other end closes the connection; reads what comes before.
void WaitForEndOf(const FileDescriptor& connection);

struct TlsClient {
  const KeyPair* own = nullptr;  // null: no certificate
  int max_version = 0;           // TLS1_2_VERSION...; 0: the latest
  bool trusts_server = true;     // false: it verifies, and knows no authority
};

struct TlsHandshake {
  // True if the server has accepted it: it sent something after it.
  bool accepted = false;
  std::string version;      // "TLSv1.3"; empty if there was no handshake
  std::string certificate;  // the server's, in PEM
};

// Shakes hands as an HTTP/2 client.
TlsHandshake ShakeHands(int port, const TlsClient& client);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_TLS_CLIENT_H_
