// SPDX-License-Identifier: Apache-2.0

#include "tests/support/certificates.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace qgemm {
namespace {

template <typename Object, void (*Free)(Object*)>
struct Freer {
  void operator()(Object* object) const { Free(object); }
};
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using RevocationList =
    std::unique_ptr<X509_CRL, Freer<X509_CRL, X509_CRL_free>>;
using Number = std::unique_ptr<BIGNUM, Freer<BIGNUM, BN_free>>;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, size);
}

Certificate ReadCertificate(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Certificate certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  CHECK(certificate != nullptr);
  return certificate;
}

Key ReadKey(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  CHECK(key != nullptr);
  return key;
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  CHECK(extension != nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

void SetSerial(X509* certificate) {
  Number number(BN_new());
  BN_rand(number.get(), 64, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY);
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate));
}

void SetTime(ASN1_TIME* to, absl::Time time) {
  CHECK(ASN1_TIME_set(to, absl::ToTimeT(time)) != nullptr);
}

KeyPair ToKeyPair(X509* certificate, EVP_PKEY* key) {
  KeyPair pair;
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_bio.get(), certificate);
  pair.certificate = TextOf(certificate_bio);
  const Bio key_bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr,
                           nullptr);
  pair.key = TextOf(key_bio);
  return pair;
}

// `issuer` is null for a certificate that signs itself.
KeyPair Make(const std::string& name, const CertificateOptions& options,
             const KeyPair* issuer) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  X509* const made = certificate.get();
  X509_set_version(made, X509_VERSION_3);
  SetSerial(made);
  SetTime(X509_getm_notBefore(made), options.begin);
  SetTime(X509_getm_notAfter(made), options.end);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(made), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(made, key.get());
  AddExtension(made, NID_basic_constraints,
               options.is_authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (!options.alternative_names.empty()) {
    AddExtension(made, NID_subject_alt_name, options.alternative_names);
  }
  if (!options.usage.empty()) {
    AddExtension(made, NID_ext_key_usage, options.usage);
  }
  const Certificate parent =
      issuer != nullptr ? ReadCertificate(issuer->certificate) : nullptr;
  const Key parent_key = issuer != nullptr ? ReadKey(issuer->key) : nullptr;
  X509_set_issuer_name(
      made, X509_get_subject_name(issuer != nullptr ? parent.get() : made));
  CHECK_GT(X509_sign(made, issuer != nullptr ? parent_key.get() : key.get(),
                     EVP_sha256()),
           0);
  return ToKeyPair(made, key.get());
}

CertificateOptions Authority() {
  CertificateOptions options;
  options.is_authority = true;
  return options;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : pair_(Make(name, Authority(), nullptr)) {}

TestAuthority::TestAuthority(const std::string& name,
                             const TestAuthority& issuer)
    : pair_(Make(name, Authority(), &issuer.pair_)) {}

KeyPair TestAuthority::Issue(const std::string& name,
                             const CertificateOptions& options) const {
  return Make(name, options, &pair_);
}

KeyPair TestAuthority::IssueServer(const std::string& name) const {
  CertificateOptions options;
  options.alternative_names = "DNS:localhost,IP:127.0.0.1";
  options.usage = "serverAuth";
  return Issue(name, options);
}

KeyPair TestAuthority::IssueClient(const std::string& name) const {
  CertificateOptions options;
  options.usage = "clientAuth";
  return Issue(name, options);
}

std::string TestAuthority::Revoke(absl::Span<const KeyPair> revoked,
                                  absl::Time next_update) const {
  const RevocationList list(X509_CRL_new());
  X509_CRL* const made = list.get();
  X509_CRL_set_version(made, X509_CRL_VERSION_2);
  const Certificate issuer = ReadCertificate(pair_.certificate);
  X509_CRL_set_issuer_name(made, X509_get_subject_name(issuer.get()));
  ASN1_TIME* const time = ASN1_TIME_new();
  SetTime(time, absl::Now() - absl::Hours(1));
  X509_CRL_set1_lastUpdate(made, time);
  for (const KeyPair& each : revoked) {
    const Certificate certificate = ReadCertificate(each.certificate);
    X509_REVOKED* const entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry,
                                  X509_get_serialNumber(certificate.get()));
    X509_REVOKED_set_revocationDate(entry, time);
    X509_CRL_add0_revoked(made, entry);
  }
  SetTime(time, next_update);
  X509_CRL_set1_nextUpdate(made, time);
  ASN1_TIME_free(time);
  X509_CRL_sort(made);
  CHECK_GT(X509_CRL_sign(made, ReadKey(pair_.key).get(), EVP_sha256()), 0);
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_CRL(bio.get(), made);
  return TextOf(bio);
}

void WriteFile(const std::string& path, const std::string& text) {
  static std::atomic<int> files{0};
  const std::string temporary = absl::StrCat(path, ".tmp", ++files);
  std::ofstream(temporary, std::ios::binary) << text;
  chmod(temporary.c_str(), 0600);
  CHECK_EQ(std::rename(temporary.c_str(), path.c_str()), 0);
}

}  // namespace qgemm
