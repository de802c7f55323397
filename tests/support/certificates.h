// SPDX-License-Identifier: Apache-2.0
//
// Certificates of every kind, made at once: authorities, servers, clients, and
// those that are wrong in one way.

#ifndef QGEMM_TESTS_SUPPORT_CERTIFICATES_H_
#define QGEMM_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace qgemm {

// Contents of a certificate beside its name.
struct CertificateOptions {
  // "DNS:localhost,IP:127.0.0.1", "URI:spiffe://corp/a"; empty = none.
  std::string alternative_names;
  // "serverAuth", "clientAuth"; empty = for all.
  std::string usage;
  absl::Time begin = absl::Now() - absl::Hours(1);
  absl::Time end = absl::Now() + absl::Hours(24);
  bool is_authority = false;
};

// A certificate and its key, in PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
};

// Keys on P-256: a millisecond each. Thread-compatible.
class TestAuthority {
 public:
  // Signs itself. Names are common names.
  explicit TestAuthority(const std::string& name);

  // One below another: `issuer` certifies it.
  TestAuthority(const std::string& name, const TestAuthority& issuer);

  const std::string& certificate() const { return pair_.certificate; }

  KeyPair Issue(const std::string& name,
                const CertificateOptions& options = {}) const;
  // For localhost and 127.0.0.1, and for clients named so.
  KeyPair IssueServer(const std::string& name = "server") const;
  KeyPair IssueClient(const std::string& name = "client") const;

  // A list in PEM that revokes those certificates.
  std::string Revoke(absl::Span<const KeyPair> revoked,
                     absl::Time next_update = absl::Now() +
                                              absl::Hours(24)) const;

 private:
  KeyPair pair_;
};

// Replaces the file as a whole, with permissions 0600.
void WriteFile(const std::string& path, const std::string& text);

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_CERTIFICATES_H_
