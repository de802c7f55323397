// SPDX-License-Identifier: Apache-2.0
//
// Certificates that their issuers have revoked (RFC 5280, section 5), from a
// folder of revocation lists.

#ifndef QGEMM_SERVER_TLS_REVOCATIONS_H_
#define QGEMM_SERVER_TLS_REVOCATIONS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/tls/openssl.h"

namespace qgemm {

// Immutable once read; thread-safe then.
class Revocations {
 public:
  // Reads every file of the folder, in PEM (one list or several) or DER; names
  // that begin with a dot are left out, links are followed. Each list must be
  // signed by one of `authorities`. A list that is past its next update holds:
  // see next_update().
  // Errors name the file and what is wrong with it: those of ReadSmallFile, and
  // INVALID_ARGUMENT.
  static absl::StatusOr<Revocations> Read(
      const std::string& folder, const std::vector<Certificate>& authorities,
      absl::Time now);

  Revocations() = default;  // of nothing

  // True if the issuer has revoked the certificate. Of an issuer that has no
  // list nothing is revoked.
  bool IsRevoked(X509* certificate) const;

  bool empty() const { return lists_.empty(); }
  size_t size() const;
  // The earliest time by which an issuer promised its next list; the infinite
  // future if none did.
  absl::Time next_update() const { return next_update_; }

 private:
  absl::Status AddText(const std::string& path, absl::string_view text,
                       const std::vector<Certificate>& authorities,
                       absl::Time now);
  absl::Status Add(RevocationList list,
                   const std::vector<Certificate>& authorities, absl::Time now);

  // By the DER of the issuer's name.
  absl::flat_hash_map<std::string, std::vector<RevocationList>> lists_;
  absl::Time next_update_ = absl::InfiniteFuture();
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_REVOCATIONS_H_
