// SPDX-License-Identifier: Apache-2.0
//
// gRPC reads the files in memory, and OpenSSL verifies a client's certificate
// within the handshake. What is revoked is looked up after it. Dates go by the
// host's clock, whose steps Clock would hide.

#include "server/tls/tls_credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/tls/handshake_failures.h"
#include "server/tls/openssl.h"
#include "server/tls/revocations.h"

namespace qgemm {

// Thread-safe.
class CurrentRevocations {
 public:
  void Set(Revocations revocations) {
    auto shared = std::make_shared<const Revocations>(std::move(revocations));
    const MutexLock lock(&mutex_);
    current_ = std::move(shared);
  }
  // Never null after the first Set.
  std::shared_ptr<const Revocations> Get() const {
    const MutexLock lock(&mutex_);
    return current_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Revocations> current_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// At which gRPC looks for new files, at least.
constexpr unsigned kRefreshSeconds = 1;

void CountFailure(const HandshakeFailure& failure, absl::string_view subject,
                  ServerMetrics* metrics) {
  metrics->TlsHandshakeFailed(failure.reason);
  LogEvent event(LogSeverity::kWarning, __FILE__, __LINE__,
                 "tls_handshake_failed", failure.reason);
  event.With("reason", failure.reason).With("detail", failure.detail);
  if (!subject.empty()) event.With("subject", subject);
}

// Refuses clients of which a certificate, or one between it and its root, is
// revoked. Resumed sessions come here too, without those between.
class RevocationVerifier final
    : public grpc::experimental::ExternalCertificateVerifier {
 public:
  RevocationVerifier(std::shared_ptr<const CurrentRevocations> revocations,
                     ServerMetrics* metrics)
      : revocations_(std::move(revocations)), metrics_(metrics) {}

  // Always answers at once.
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const std::shared_ptr<const Revocations> revocations = revocations_->Get();
    if (revocations->empty()) return true;
    if (AnyRevoked(*revocations, request->peer_cert()) ||
        AnyRevoked(*revocations, request->peer_cert_full_chain())) {
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                  "the certificate is revoked");
    }
    return true;
  }

  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {
  }

 private:
  // True too where nothing can be read of what OpenSSL has accepted.
  bool AnyRevoked(const Revocations& revocations,
                  const grpc::string_ref& pem) const {
    const Bio bio = ReadingBio({pem.data(), pem.size()});
    while (true) {
      const Certificate certificate(
          PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
      if (certificate == nullptr) {
        const bool is_end =
            ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
        const std::string error = TakeError();
        if (is_end) return false;
        CountFailure({"revoked", "certificate cannot be read"}, error,
                     metrics_);
        return true;
      }
      if (!revocations.IsRevoked(certificate.get())) continue;
      CountFailure({"revoked", "certificate revoked"},
                   TextOf(X509_get_subject_name(certificate.get())), metrics_);
      return true;
    }
  }

  const std::shared_ptr<const CurrentRevocations> revocations_;
  ServerMetrics* const metrics_;
};

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(
    const std::string& identity_path, const std::string& client_ca_path,
    std::shared_ptr<grpc::experimental::CertificateVerifier> verifier) {
  const auto provider =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          identity_path, identity_path, client_ca_path, kRefreshSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(std::move(verifier));
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCredentials>> TlsCredentials::Create(
    const CertificatePaths& paths, ServerMetrics* metrics) {
  std::unique_ptr<TlsCredentials> credentials(
      new TlsCredentials(paths, metrics));
  RETURN_IF_ERROR(credentials->Start());
  return credentials;
}

TlsCredentials::TlsCredentials(const CertificatePaths& paths,
                               ServerMetrics* metrics)
    : paths_(paths),
      metrics_(metrics),
      revocations_(std::make_shared<CurrentRevocations>()),
      watch_(paths.All()) {}

TlsCredentials::~TlsCredentials() {
  watch_.Stop();
  ObserveHandshakes(nullptr);
}

absl::Status TlsCredentials::Start() {
  ASSIGN_OR_RETURN(CertificateSet set, ReadCertificates(paths_, absl::Now()));
  RETURN_IF_ERROR(Install(std::move(set)));
  credentials_ =
      MakeCredentials(identity_->path(), client_ca_->path(),
                      grpc::experimental::ExternalCertificateVerifier::Create<
                          RevocationVerifier>(revocations_, metrics_));
  ObserveHandshakes([metrics = metrics_](const HandshakeFailure& failure) {
    CountFailure(failure, "", metrics);
  });
  watch_.Start([this] { Reload(); });
  return absl::OkStatus();
}

void TlsCredentials::Reload() {
  auto set = ReadCertificates(paths_, absl::Now());
  const absl::Status status =
      set.ok() ? Install(*std::move(set)) : set.status();
  if (status.ok()) return;
  // The files are not at fault, and may stay as they are.
  if (absl::IsResourceExhausted(status)) watch_.TellAgain();
  metrics_->TlsReloadFailed();
  EVENT(ERROR, "tls_reload_failed")
      .With("error", status.message())
      .With("consequence", "the certificates of before stay in use");
}

// A new number makes gRPC begin anew where only revocations differ, and forget
// the sessions that clients could resume.
absl::Status TlsCredentials::Install(CertificateSet set) {
  const std::string number = absl::StrCat("# ", ++generation_, "\n");
  const std::string identity = absl::StrCat(number, set.key, set.chain);
  const std::string client_ca = absl::StrCat(number, set.client_ca);
  // A set that is in use in part is told again, as a whole.
  if (identity_ == nullptr) {
    ASSIGN_OR_RETURN(identity_, MemoryFile::Create(identity));
    ASSIGN_OR_RETURN(client_ca_, MemoryFile::Create(client_ca));
  } else {
    RETURN_IF_ERROR(client_ca_->Replace(client_ca));
    RETURN_IF_ERROR(identity_->Replace(identity));
  }
  Tell(set);
  revocations_->Set(std::move(set.revocations));
  return absl::OkStatus();
}

void TlsCredentials::Tell(const CertificateSet& set) const {
  metrics_->SetTlsExpiry("server", set.expiry);
  metrics_->SetTlsExpiry("client_ca", set.client_ca_expiry);
  const absl::Time next_lists = set.revocations.next_update();
  if (next_lists < absl::InfiniteFuture()) {
    metrics_->SetTlsExpiry("crl", next_lists);
  }
  EVENT(INFO, "tls_certificates_loaded")
      .With("subject", set.subject)
      .With("expires", absl::FormatTime(set.expiry, absl::UTCTimeZone()))
      .With("client_ca_expires",
            absl::FormatTime(set.client_ca_expiry, absl::UTCTimeZone()))
      .With("revocation_lists", set.revocations.size());
  for (const std::string& warning : set.warnings) {
    EVENT(WARNING, "tls_certificates_warning").With("text", warning);
  }
}

}  // namespace qgemm
