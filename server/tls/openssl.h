// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL's objects with owners, its text and its time.

#ifndef QGEMM_SERVER_TLS_OPENSSL_H_
#define QGEMM_SERVER_TLS_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm {

struct FreeOpenssl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, FreeOpenssl>;
using Certificate = std::unique_ptr<X509, FreeOpenssl>;
using RevocationList = std::unique_ptr<X509_CRL, FreeOpenssl>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeOpenssl>;

// Reads `text`, which must outlive it.
Bio ReadingBio(absl::string_view text);

// Collects what is written to it; its memory is cleared when it is freed.
Bio WritingBio();
std::string TextOf(BIO* written);

// The reason of the first error of this thread's queue, which is empty then.
std::string TakeError();

// "CN = server, O = corp".
std::string TextOf(const X509_NAME* name);

// The infinite past if the time is malformed.
absl::Time ToTime(const ASN1_TIME* time);

// The text of a regular file of a MiB at most. Errors: INVALID_ARGUMENT (it is
// no file, or larger); those of the system's reason why it cannot be read,
// RESOURCE_EXHAUSTED for a want of descriptors.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_OPENSSL_H_
