// SPDX-License-Identifier: Apache-2.0
//
// Credentials with which gRPC serves TLS: certificates that are renewed while
// it does (docs/decisions/0024-certificates.md).

#ifndef QGEMM_SERVER_TLS_TLS_CREDENTIALS_H_
#define QGEMM_SERVER_TLS_TLS_CREDENTIALS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_watch.h"
#include "server/metrics/server_metrics.h"
#include "server/tls/certificate_set.h"
#include "server/tls/memory_file.h"

namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace qgemm {

class CurrentRevocations;

// TLS 1.2 and later; a client must have a certificate that leads to one of the
// authorities and is not revoked. A set of files that is wrong changes nothing
// but the log and a metric. Handshakes show a new set about a second after it
// was read; connections that exist go on with the old one. Thread-safe.
class TlsCredentials {
 public:
  // Reads the files. The metrics must outlive the object, and it gRPC's server.
  // Errors: those of ReadCertificates and of MemoryFile.
  static absl::StatusOr<std::unique_ptr<TlsCredentials>> Create(
      const CertificatePaths& paths, ServerMetrics* metrics);
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;
  ~TlsCredentials();

  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }

 private:
  TlsCredentials(const CertificatePaths& paths, ServerMetrics* metrics);

  absl::Status Start();
  void Reload();
  absl::Status Install(CertificateSet set);
  void Tell(const CertificateSet& set) const;

  const CertificatePaths paths_;
  ServerMetrics* const metrics_;
  const std::shared_ptr<CurrentRevocations> revocations_;
  // Used by Start, then by the watch's thread.
  int64_t generation_ = 0;
  std::unique_ptr<MemoryFile> identity_;  // the key, then the chain
  std::unique_ptr<MemoryFile> client_ca_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  FileWatch watch_;  // last: its thread uses the others
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_TLS_CREDENTIALS_H_
