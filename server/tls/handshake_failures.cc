// SPDX-License-Identifier: Apache-2.0
//
// A slot for data of others in each object of OpenSSL's has a function that
// frees the data, with the object at hand (man 3 CRYPTO_get_ex_new_index).

#include "server/tls/handshake_failures.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace qgemm {
namespace {

class CurrentObserver {
 public:
  void Set(HandshakeObserver observer) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    observer_ = std::move(observer);
  }
  void Tell(const HandshakeFailure& failure) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    if (observer_ != nullptr) observer_(failure);
  }

 private:
  mutable std::shared_mutex mutex_;
  HandshakeObserver observer_;
};

CurrentObserver& Current() {
  static auto& current = *new CurrentObserver;
  return current;
}

void OnFree(void* ssl, void*, CRYPTO_EX_DATA*, int, long, void*) {
  const auto failure = FailureOf(static_cast<const SSL*>(ssl));
  if (failure.has_value()) Current().Tell(*failure);
}

const char* ReasonOf(long verify_result) {
  switch (verify_result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "not_yet_valid";
    case X509_V_ERR_INVALID_PURPOSE:
      return "wrong_purpose";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "unknown_ca";
    default:
      return "bad_certificate";
  }
}

}  // namespace

// An object whose handshake failed keeps the state in which it did; one whose
// handshake was given up meanwhile has no error.
std::optional<HandshakeFailure> FailureOf(const SSL* ssl) {
  if (SSL_is_server(ssl) == 0 || SSL_is_init_finished(ssl) != 0) {
    return std::nullopt;
  }
  const long verified = SSL_get_verify_result(ssl);
  if (verified != X509_V_OK) {
    return HandshakeFailure{ReasonOf(verified),
                            X509_verify_cert_error_string(verified)};
  }
  constexpr absl::string_view kError = "SSLERR";
  if (SSL_state_string(ssl) != kError) {
    return HandshakeFailure{"incomplete", SSL_state_string_long(ssl)};
  }
  switch (SSL_get_state(ssl)) {
    case TLS_ST_SR_CERT:
      return HandshakeFailure{"no_certificate", "none, or a malformed one"};
    case TLS_ST_BEFORE:
    case TLS_ST_SR_CLNT_HELLO:
      return HandshakeFailure{"protocol",
                              "no TLS, an old version, or no common cipher"};
    default:
      return HandshakeFailure{"aborted", "by the client, or out of step"};
  }
}

void ObserveHandshakes(HandshakeObserver observer) {
  static const int slot =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, OnFree);
  CHECK_GE(slot, 0);
  Current().Set(std::move(observer));
}

}  // namespace qgemm
