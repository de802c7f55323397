// SPDX-License-Identifier: Apache-2.0

#include "tests/support/tls_client.h"

#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "base/check.h"

namespace qgemm {
namespace {

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, Free>;

Owned<BIO> Reading(const std::string& text) {
  return Owned<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

void SetOwn(const KeyPair& own, SSL_CTX* context) {
  const Owned<X509> certificate(PEM_read_bio_X509(
      Reading(own.certificate).get(), nullptr, nullptr, nullptr));
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(Reading(own.key).get(),
                                                    nullptr, nullptr, nullptr));
  CHECK_EQ(SSL_CTX_use_certificate(context, certificate.get()), 1);
  CHECK_EQ(SSL_CTX_use_PrivateKey(context, key.get()), 1);
}

std::string PemOf(X509* certificate) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, size);
}

}  // namespace

FileDescriptor ConnectToPort(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(fd.valid());
  sockaddr_in end = {};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&end), sizeof(end)),
      0);
  return fd;
}

void WaitForEndOf(const FileDescriptor& connection) {
  char bytes[4096];
  while (recv(connection.get(), bytes, sizeof(bytes), 0) > 0) {
  }
}

TlsHandshake ShakeHands(int port, const TlsClient& client) {
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  // Below TLS 1.2 only a level of 0 lets it speak.
  SSL_CTX_set_security_level(context.get(), 0);
  CHECK_EQ(SSL_CTX_set_min_proto_version(context.get(), 0), 1);
  CHECK_EQ(SSL_CTX_set_max_proto_version(context.get(), client.max_version), 1);
  if (!client.trusts_server) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  const unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  if (client.own != nullptr) SetOwn(*client.own, context.get());
  const FileDescriptor connection = ConnectToPort(port);
  const Owned<SSL> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), connection.get());
  TlsHandshake handshake;
  if (SSL_connect(ssl.get()) != 1) return handshake;
  handshake.version = SSL_get_version(ssl.get());
  const Owned<X509> certificate(SSL_get1_peer_certificate(ssl.get()));
  handshake.certificate = PemOf(certificate.get());
  // The server's SETTINGS, which follow once it has checked the certificate.
  char byte = 0;
  handshake.accepted = SSL_read(ssl.get(), &byte, 1) == 1;
  return handshake;
}

}  // namespace qgemm
