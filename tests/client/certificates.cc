// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL's objects stay in this file.

#include "tests/client/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace qgemm {
namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;

constexpr long kDaySeconds = 24 * 60 * 60;

KeyPtr NewKey() {
  KeyPtr key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  CHECK(key != nullptr);
  return key;
}

// Text that `write` writes to a BIO.
template <typename Write>
std::string TextOf(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()),
                                                      BIO_free);
  CHECK_EQ(write(bio.get()), 1);
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(bio.get(), &bytes);
  return std::string(bytes, count);
}

std::string TextOf(X509* certificate) {
  return TextOf([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string TextOf(EVP_PKEY* key) {
  return TextOf([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                    nullptr);
  });
}

void AddExtension(int kind, const std::string& value, X509* certificate) {
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  CHECK(extension != nullptr);
  CHECK_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

// Without signature and issuer.
CertificatePtr NewCertificate(long serial, const std::string& common_name,
                              EVP_PKEY* key) {
  CertificatePtr certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDaySeconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

struct CertificateAuthority::State {
  explicit State(const std::string& name)
      : certificate(NewCertificate(1, name, key.get())) {}

  const KeyPtr key = NewKey();
  const CertificatePtr certificate;
  std::string text;
  long last_serial = 1;

  void Sign(X509* signed_by_us) {
    X509_set_issuer_name(signed_by_us,
                         X509_get_subject_name(certificate.get()));
    CHECK_GT(X509_sign(signed_by_us, key.get(), EVP_sha256()), 0);
  }
};

CertificateAuthority::CertificateAuthority(const std::string& name)
    : state_(std::make_unique<State>(name)) {
  X509* const certificate = state_->certificate.get();
  AddExtension(NID_basic_constraints, "critical,CA:TRUE", certificate);
  state_->Sign(certificate);
  state_->text = TextOf(certificate);
}

CertificateAuthority::~CertificateAuthority() = default;

const std::string& CertificateAuthority::certificate() const {
  return state_->text;
}

CertificateAndKey CertificateAuthority::Issue(absl::string_view names) {
  const KeyPtr key = NewKey();
  const CertificatePtr certificate =
      NewCertificate(++state_->last_serial, "test", key.get());
  AddExtension(NID_subject_alt_name, std::string(names), certificate.get());
  state_->Sign(certificate.get());
  return {TextOf(certificate.get()), TextOf(key.get())};
}

}  // namespace qgemm
