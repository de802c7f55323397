// SPDX-License-Identifier: Apache-2.0
//
// The server's certificate and key, the authorities whose clients it accepts,
// and what these have revoked: read from files and checked together. Who
// watches the files and hands them to gRPC is in tls_listening.h.

#ifndef QGEMM_SERVER_TLS_CERTIFICATE_SET_H_
#define QGEMM_SERVER_TLS_CERTIFICATE_SET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tls/revocations.h"

namespace qgemm {

// Files in PEM.
struct CertificatePaths {
  std::string certificate;  // the server's, then those between it and a root
  std::string key;          // its private one, not encrypted
  std::string client_ca;    // certificates that clients' must lead to
  std::string crl_folder;   // revocation lists; empty = none

  // All that are given, to be watched.
  std::vector<std::string> All() const;
};

// A set of which every part fits the others.
struct CertificateSet {
  std::string chain;      // PEM, as the library writes it
  std::string key;        // likewise
  std::string client_ca;  // likewise
  Revocations revocations;

  std::string subject;  // of the server's certificate
  // The end of the certificate that ends first of the server's chain, and of
  // the authorities that have not ended yet.
  absl::Time expiry;
  absl::Time client_ca_expiry;
  // Faults with which the set can be used all the same: for the log.
  std::vector<std::string> warnings;
};

// Errors name the flag, the file and what is wrong. RESOURCE_EXHAUSTED: no
// descriptor was free, try again; other codes of the system: it cannot be
// read. INVALID_ARGUMENT: a part does not parse; the key is encrypted, or
// another certificate's; a certificate is not valid yet or any more, is not one
// for servers, or does not certify the one before it; the library takes the
// algorithm or the key's size for too weak; all authorities have ended; a
// revocation list is not signed by an authority.
absl::StatusOr<CertificateSet> ReadCertificates(const CertificatePaths& paths,
                                                absl::Time now);

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_CERTIFICATE_SET_H_
