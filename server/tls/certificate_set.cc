// SPDX-License-Identifier: Apache-2.0
//
// A pair is tried here as gRPC will use it: gRPC drops the one that it has
// before it looks at the next one.

#include "server/tls/certificate_set.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/tls/openssl.h"

namespace qgemm {
namespace {

using Certificates = std::vector<Certificate>;

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// One of the files, for messages.
struct File {
  const char* flag;
  const std::string& path;
};

absl::Status Wrong(const File& file, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", file.flag, " = \"", file.path, "\": ", reason));
}

absl::StatusOr<std::string> Read(const File& file) {
  absl::StatusOr<std::string> text = ReadSmallFile(file.path);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      Wrong(file, text.status().message()).message());
}

absl::StatusOr<Certificates> ReadChain(const File& file) {
  ASSIGN_OR_RETURN(const std::string text, Read(file));
  const Bio bio = ReadingBio(text);
  Certificates chain;
  while (true) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    chain.push_back(std::move(next));
  }
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string error = TakeError();
  if (!at_end) {
    return Wrong(file, absl::StrCat("certificate ", chain.size() + 1,
                                    " is malformed: ", error));
  }
  if (chain.empty()) return Wrong(file, "it has no certificate in PEM");
  return chain;
}

// The library would ask for a passphrase at the terminal.
int RefusePassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<PrivateKey> ReadKey(const File& file) {
  ASSIGN_OR_RETURN(std::string text, Read(file));
  bool is_encrypted = false;
  PrivateKey key(PEM_read_bio_PrivateKey(ReadingBio(text).get(), nullptr,
                                         RefusePassphrase, &is_encrypted));
  OPENSSL_cleanse(text.data(), text.size());
  if (key != nullptr) return key;
  const std::string error = TakeError();
  return Wrong(file,
               is_encrypted
                   ? "the key is encrypted; the server has no passphrase"
                   : absl::StrCat("it has no private key in PEM: ", error));
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Time EndOf(const Certificate& certificate) {
  return ToTime(X509_get0_notAfter(certificate.get()));
}

std::string SubjectOf(const Certificate& certificate) {
  return TextOf(X509_get_subject_name(certificate.get()));
}

absl::Status CheckValidity(const File& file, const Certificate& certificate,
                           absl::Time now) {
  const absl::Time begin = ToTime(X509_get0_notBefore(certificate.get()));
  const absl::Time end = EndOf(certificate);
  if (begin <= now && now < end) return absl::OkStatus();
  return Wrong(file,
               absl::StrCat("the certificate of \"", SubjectOf(certificate),
                            "\" is valid from ", Date(begin), " to ", Date(end),
                            ", and it is ", Date(now)));
}

absl::Status CheckChain(const File& file, const Certificates& chain,
                        absl::Time now) {
  for (size_t i = 0; i < chain.size(); ++i) {
    RETURN_IF_ERROR(CheckValidity(file, chain[i], now));
    if (i > 0 &&
        X509_check_issued(chain[i].get(), chain[i - 1].get()) != X509_V_OK) {
      return Wrong(
          file,
          absl::StrCat("certificate ", i + 1, ", of \"", SubjectOf(chain[i]),
                       "\", did not issue the one before it, of \"",
                       SubjectOf(chain[i - 1]),
                       "\"; the server's comes first, and each is "
                       "followed by its issuer's"));
    }
  }
  constexpr int kNoAuthority = 0;
  if (X509_check_purpose(chain[0].get(), X509_PURPOSE_SSL_SERVER,
                         kNoAuthority) != 1) {
    return Wrong(file,
                 absl::StrCat("the certificate of \"", SubjectOf(chain[0]),
                              "\" is not one for servers"));
  }
  return absl::OkStatus();
}

// Loads the pair as gRPC does.
absl::Status CheckLoads(const File& certificate_file, const File& key_file,
                        const Certificates& chain, EVP_PKEY* key) {
  const std::unique_ptr<SSL_CTX, FreeContext> context(
      SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(TakeError());
  if (SSL_CTX_use_certificate(context.get(), chain[0].get()) != 1) {
    return Wrong(certificate_file, TakeError());
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) != 1) {
      return Wrong(certificate_file, TakeError());
    }
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Wrong(key_file,
                 absl::StrCat("it is not the key of \"", certificate_file.path,
                              "\": ", TakeError()));
  }
  return absl::OkStatus();
}

std::string PemOf(const Certificates& certificates) {
  const Bio bio = WritingBio();
  for (const Certificate& each : certificates) {
    PEM_write_bio_X509(bio.get(), each.get());
  }
  return TextOf(bio.get());
}

std::string PemOf(EVP_PKEY* key) {
  const Bio bio = WritingBio();
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr,
                           nullptr);
  return TextOf(bio.get());
}

absl::Status ReadOwn(const CertificatePaths& paths, absl::Time now,
                     CertificateSet* set) {
  const File certificate_file = {"tls_cert", paths.certificate};
  const File key_file = {"tls_key", paths.key};
  ASSIGN_OR_RETURN(const Certificates chain, ReadChain(certificate_file));
  ASSIGN_OR_RETURN(const PrivateKey key, ReadKey(key_file));
  RETURN_IF_ERROR(CheckChain(certificate_file, chain, now));
  RETURN_IF_ERROR(CheckLoads(certificate_file, key_file, chain, key.get()));
  set->chain = PemOf(chain);
  set->key = PemOf(key.get());
  set->subject = SubjectOf(chain[0]);
  set->expiry = absl::InfiniteFuture();
  for (const Certificate& each : chain) {
    set->expiry = std::min(set->expiry, EndOf(each));
  }
  struct stat status;
  if (stat(paths.key.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    set->warnings.push_back(absl::StrFormat(
        "--tls_key = \"%s\" has mode %04o: others than its owner may have it",
        paths.key, status.st_mode & 07777));
  }
  return absl::OkStatus();
}

// Authorities that have ended stay: a bundle may keep them for long.
absl::Status ReadAuthorities(const CertificatePaths& paths, absl::Time now,
                             CertificateSet* set) {
  const File file = {"tls_client_ca", paths.client_ca};
  ASSIGN_OR_RETURN(const Certificates authorities, ReadChain(file));
  set->client_ca_expiry = absl::InfiniteFuture();
  for (const Certificate& each : authorities) {
    if (EndOf(each) > now) {
      set->client_ca_expiry = std::min(set->client_ca_expiry, EndOf(each));
    } else {
      set->warnings.push_back(absl::StrCat("--tls_client_ca: \"",
                                           SubjectOf(each), "\" has ended on ",
                                           Date(EndOf(each))));
    }
  }
  if (set->client_ca_expiry == absl::InfiniteFuture()) {
    return Wrong(file, "all of its certificates have ended");
  }
  set->client_ca = PemOf(authorities);
  if (paths.crl_folder.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(set->revocations,
                   Revocations::Read(paths.crl_folder, authorities, now));
  if (set->revocations.next_update() <= now) {
    set->warnings.push_back(absl::StrCat(
        "--tls_crl_dir: a list is out of date since ",
        Date(set->revocations.next_update()), "; it is still applied"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CertificatePaths::All() const {
  std::vector<std::string> all = {certificate, key, client_ca};
  if (!crl_folder.empty()) all.push_back(crl_folder);
  return all;
}

absl::StatusOr<CertificateSet> ReadCertificates(const CertificatePaths& paths,
                                                absl::Time now) {
  CertificateSet set;
  RETURN_IF_ERROR(ReadOwn(paths, now, &set));
  RETURN_IF_ERROR(ReadAuthorities(paths, now, &set));
  return set;
}

}  // namespace qgemm
