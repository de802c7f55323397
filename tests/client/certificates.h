// SPDX-License-Identifier: Apache-2.0
//
// Certificates that are made for one test.

#ifndef QGEMM_TESTS_CLIENT_CERTIFICATES_H_
#define QGEMM_TESTS_CLIENT_CERTIFICATES_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace qgemm {

// Both in PEM.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

// An authority, valid for a day. Not thread-safe.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name = "test authority");
  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;
  ~CertificateAuthority();

  // In PEM.
  const std::string& certificate() const;

  // A certificate for `names`, as in "DNS:server.test,IP:127.0.0.1".
  CertificateAndKey Issue(absl::string_view names);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_CERTIFICATES_H_
