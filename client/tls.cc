// SPDX-License-Identifier: Apache-2.0
//
// The reasons are those of gRPC 1.51 with OpenSSL 3; with others the reason
// stands alone.

#include "client/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/text_file.h"

namespace qgemm {
namespace {

using grpc::experimental::CertificateProviderInterface;
using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::IdentityKeyCertPair;
using grpc::experimental::StaticDataCertificateProvider;
using ProviderPtr = std::shared_ptr<CertificateProviderInterface>;

constexpr unsigned kRefreshSeconds = 1;

bool HasFiles(const TlsOptions& options) {
  return !options.ca_file.empty() || !options.certificate_file.empty() ||
         !options.key_file.empty();
}

bool HasTexts(const TlsOptions& options) {
  return !options.ca_pem.empty() || !options.certificate_pem.empty() ||
         !options.key_pem.empty();
}

bool HasCertificate(const TlsOptions& options) {
  return !options.certificate_file.empty() || !options.certificate_pem.empty();
}

absl::Status CheckFile(const std::string& path, absl::string_view field) {
  if (path.empty()) return absl::OkStatus();
  return ReadTextFile(path, absl::StrCat("TlsOptions::", field)).status();
}

absl::Status Check(const TlsOptions& options) {
  if (HasFiles(options) && HasTexts(options)) {
    return absl::InvalidArgumentError(
        "TlsOptions: files and texts in PEM are both set; give files or texts");
  }
  if (options.ca_file.empty() && options.ca_pem.empty()) {
    return absl::InvalidArgumentError(
        "TlsOptions::ca_file is empty; name the authorities that the server's "
        "certificate must lead to");
  }
  if (options.certificate_file.empty() != options.key_file.empty() ||
      options.certificate_pem.empty() != options.key_pem.empty()) {
    return absl::InvalidArgumentError(
        "TlsOptions: a client certificate and its key go together; one of the "
        "two is missing");
  }
  RETURN_IF_ERROR(CheckFile(options.ca_file, "ca_file"));
  RETURN_IF_ERROR(CheckFile(options.certificate_file, "certificate_file"));
  return CheckFile(options.key_file, "key_file");
}

ProviderPtr ProviderOfFiles(const TlsOptions& options) {
  if (!HasCertificate(options)) {
    return std::make_shared<FileWatcherCertificateProvider>(options.ca_file,
                                                            kRefreshSeconds);
  }
  return std::make_shared<FileWatcherCertificateProvider>(
      options.key_file, options.certificate_file, options.ca_file,
      kRefreshSeconds);
}

ProviderPtr ProviderOfTexts(const TlsOptions& options) {
  if (!HasCertificate(options)) {
    return std::make_shared<StaticDataCertificateProvider>(options.ca_pem);
  }
  return std::make_shared<StaticDataCertificateProvider>(
      options.ca_pem, std::vector<IdentityKeyCertPair>{
                          {options.key_pem, options.certificate_pem}});
}

// The connection was closed without a word, as a server does whose rules of TLS
// the client broke.
std::string MeaningOfClose(const std::optional<TlsOptions>& tls) {
  if (!tls.has_value()) return "the server may speak TLS alone";
  if (!HasCertificate(*tls)) {
    return "the server may demand a client certificate";
  }
  return "the server may not accept the client's certificate";
}

std::string MeaningOf(absl::string_view reason,
                      const std::optional<TlsOptions>& tls) {
  if (absl::StrContains(reason, "Socket closed") ||
      absl::StrContains(reason, "Connection reset")) {
    return MeaningOfClose(tls);
  }
  if (absl::StrContains(reason, "certificate verify failed")) {
    return "the server's certificate leads to none of the authorities given, "
           "or is not valid now";
  }
  if (absl::StrContains(reason, "asn1 encoding routines")) {
    return "the authority that the server's certificate names has another key "
           "than the one of that name that was given";
  }
  if (absl::StrContains(reason, "Hostname Verification Check failed")) {
    const std::string& name = tls.has_value() ? tls->server_name : "";
    return absl::StrCat(
        "the server's certificate does not have the name ",
        name.empty() ? "of the target" : absl::StrCat("'", name, "'"),
        "; TlsOptions::server_name says which it must have");
  }
  if (absl::StrContains(reason, "wrong version number")) {
    return "the server does not speak TLS";
  }
  if (absl::StrContains(reason, "Failed to create security handshaker")) {
    return "the authorities, the certificate or the key are not in PEM, or the "
           "key is not the certificate's";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentialsOf(
    const TlsOptions& options) {
  RETURN_IF_ERROR(Check(options));
  grpc::experimental::TlsChannelCredentialsOptions credentials;
  credentials.set_certificate_provider(
      HasFiles(options) ? ProviderOfFiles(options) : ProviderOfTexts(options));
  credentials.watch_root_certs();
  if (HasCertificate(options)) credentials.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(credentials);
}

std::string ExplainConnectFailure(absl::string_view reason,
                                  const std::optional<TlsOptions>& tls) {
  const std::string meaning = MeaningOf(reason, tls);
  if (meaning.empty()) return std::string(reason);
  return absl::StrCat(reason, " (", meaning, ")");
}

}  // namespace qgemm
