// SPDX-License-Identifier: Apache-2.0
//
// Wraps OpenSSL's EVP digest.

#include "base/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace qgemm {

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    CHECK(context != nullptr) << "EVP_MD_CTX_new: out of memory";
    CHECK_EQ(EVP_DigestInit_ex(context, EVP_sha256(), nullptr), 1);
  }
  ~State() { EVP_MD_CTX_free(context); }

  EVP_MD_CTX* const context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  CHECK_EQ(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()), 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  CHECK_EQ(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr), 1);
  return digest;
}

std::string ToHex(const Sha256Digest& digest) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

}  // namespace qgemm
