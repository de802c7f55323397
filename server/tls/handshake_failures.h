// SPDX-License-Identifier: Apache-2.0
//
// Handshakes that came to nothing, and why. gRPC tells nobody: OpenSSL says it
// when the handshake's object is freed.

#ifndef QGEMM_SERVER_TLS_HANDSHAKE_FAILURES_H_
#define QGEMM_SERVER_TLS_HANDSHAKE_FAILURES_H_

#include <functional>
#include <optional>

struct ssl_st;

namespace qgemm {

// Texts live for ever.
struct HandshakeFailure {
  // A label of metrics, one of those below.
  const char* reason = "";
  // For the log.
  const char* detail = "";
};

// Values of HandshakeFailure::reason:
//   no_certificate  the client sent none, or a malformed one
//   unknown_ca      its certificate leads to none of the authorities
//   expired, not_yet_valid, wrong_purpose, bad_certificate, revoked
//   protocol        its first message was refused: an old version of TLS, no
//                   common cipher, no TLS at all
//   aborted         it sent an error: it does not trust the server's
//                   certificate, say
//   incomplete      it left, as gRPC's clients do that do not trust the
//                   server's certificate, or the handshake's time was over
// The failure of an object that is about to be freed; nullopt if it is not a
// server's, or its handshake succeeded.
std::optional<HandshakeFailure> FailureOf(const ssl_st* ssl);

// Runs on any thread, several times at once.
using HandshakeObserver = std::function<void(const HandshakeFailure&)>;

// From here on the observer is told of every failure in the process, until the
// next one takes its place; null: none is. The one before does not run any more
// when this returns. For the whole process, as OpenSSL's hooks are.
// Thread-safe; not from within an observer.
void ObserveHandshakes(HandshakeObserver observer);

}  // namespace qgemm

#endif  // QGEMM_SERVER_TLS_HANDSHAKE_FAILURES_H_
