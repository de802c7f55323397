// SPDX-License-Identifier: Apache-2.0
//
// A real server under TLS: who gets in, who does not and what the server says
// of it, and certificates that change while it serves.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tls_client.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// Anybody with a certificate of the authority's may do everything.
constexpr char kTable[] = R"({"clients": [{"id": "all",
    "match": [{"cn": "client"}],
    "rights": ["compute", "load", "admin", "debug"], "names": [""]}]})";

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    options_.listen = {"tls:127.0.0.1:0", "127.0.0.1:0"};
    options_.metrics_listen = "127.0.0.1:0";
    options_.tls.certificate = folder_.File("server.pem");
    options_.tls.key = folder_.File("server.key");
    options_.tls.client_ca = folder_.File("ca.pem");
    options_.tls.crl_folder = folder_.File("crls");
    options_.access_table = folder_.File("access.json");
    std::filesystem::create_directory(options_.tls.crl_folder);
    WriteFile(options_.access_table, kTable);
    WriteFile(options_.tls.client_ca, authority_.certificate());
    WriteServer(authority_.IssueServer());
  }

  void WriteServer(const KeyPair& pair) {
    WriteFile(options_.tls.certificate, pair.certificate);
    WriteFile(options_.tls.key, pair.key);
  }

  void Start() {
    auto server = Server::Create(options_);
    CHECK_OK(server.status());
    server_ = *std::move(server);
  }

  int port() const { return server_->ports().front(); }

  // A channel with a connection of its own. A null `own` has no certificate.
  std::shared_ptr<grpc::Channel> NewChannel(
      const KeyPair* own, const TestAuthority& trusted) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = trusted.certificate();
    if (own != nullptr) {
      options.pem_cert_chain = own->certificate;
      options.pem_private_key = own->key;
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port()),
                                     grpc::SslCredentials(options), arguments);
  }
  Client NewClient(const KeyPair& own) const {
    return Client(NewChannel(&own, authority_));
  }

  static grpc::Status Info(const Client& client) {
    grpc::ClientContext context;
    v1::GetServerInfoResponse response;
    return client.stub()->GetServerInfo(&context, {}, &response);
  }

  double Metric(const std::string& prefix) const {
    return ScrapeMetric(server_->metrics_port(), prefix);
  }
  double Failures(const std::string& reason) const {
    return Metric("qgemm_tls_handshake_failures_total{reason=\"" + reason +
                  "\"}");
  }
  // Waits until the metric has that value: the server counts after it has
  // closed a connection.
  void WaitFor(const std::string& prefix, double value) const {
    while (Metric(prefix) < value) std::this_thread::yield();
    EXPECT_EQ(Metric(prefix), value);
  }
  void WaitForFailure(const std::string& reason) const {
    WaitFor("qgemm_tls_handshake_failures_total{reason=\"" + reason + "\"}", 1);
  }

  // Expects that the server refuses the client for that reason and serves
  // others on.
  void ExpectRefused(const KeyPair* own, const std::string& reason) {
    const Client refused(NewChannel(own, authority_));
    EXPECT_EQ(Info(refused).error_code(), grpc::StatusCode::UNAVAILABLE);
    while (Failures(reason) == 0) std::this_thread::yield();
    const grpc::Status status = Info(NewClient(client_));
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // The certificate that a new handshake shows.
  std::string Shown() const {
    return ShakeHands(port(), {&client_}).certificate;
  }
  void WaitUntilShown(const KeyPair& pair) const {
    while (Shown() != pair.certificate) std::this_thread::yield();
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  const TestAuthority other_{"other"};
  const KeyPair client_ = authority_.IssueClient();
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, ServesAClientWithACertificate) {
  Start();
  RandomGenerator random(FreshSeed());
  const Client client = NewClient(client_);
  LoadLayer(client, 256, 256, &random);
  const auto answer = client.Gemm(MakeGemm("layer", 4, 256, &random));
  EXPECT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_EQ(Metric("qgemm_connections{transport=\"tls\"}"), 1);
  EXPECT_GT(Metric("qgemm_transport_bytes_total{direction=\"received\","
                   "transport=\"tls\"}"),
            0);
}

TEST_F(TlsTest, TakesACertificateThatIsCertifiedInSteps) {
  const TestAuthority between("between", authority_);
  KeyPair own = between.IssueClient();
  own.certificate += between.certificate();
  KeyPair server = between.IssueServer();
  server.certificate += between.certificate();
  WriteServer(server);
  Start();
  const grpc::Status status = Info(NewClient(own));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(TlsTest, RefusesAClientWithoutACertificate) {
  Start();
  ExpectRefused(nullptr, "no_certificate");
}

TEST_F(TlsTest, RefusesAClientOfAnotherAuthority) {
  Start();
  const KeyPair own = other_.IssueClient();
  ExpectRefused(&own, "unknown_ca");
}

// The name is an authority's, the key is not.
TEST_F(TlsTest, RefusesAClientOfAnAuthorityOfTheSameName) {
  Start();
  const KeyPair own = TestAuthority("authority").IssueClient();
  ExpectRefused(&own, "unknown_ca");
}

TEST_F(TlsTest, RefusesACertificateBeforeAndAfterItsTime) {
  Start();
  CertificateOptions options;
  options.end = absl::Now() - absl::Minutes(1);
  const KeyPair expired = authority_.Issue("client", options);
  ExpectRefused(&expired, "expired");
  options.begin = absl::Now() + absl::Hours(1);
  options.end = absl::Now() + absl::Hours(2);
  const KeyPair early = authority_.Issue("client", options);
  ExpectRefused(&early, "not_yet_valid");
}

TEST_F(TlsTest, RefusesACertificateForServers) {
  Start();
  const KeyPair own = authority_.IssueServer("client");
  ExpectRefused(&own, "wrong_purpose");
}

TEST_F(TlsTest, RefusesARevokedCertificate) {
  const KeyPair revoked = authority_.IssueClient();
  WriteFile(options_.tls.crl_folder + "/a.crl", authority_.Revoke({revoked}));
  Start();
  ExpectRefused(&revoked, "revoked");
}

TEST_F(TlsTest, RefusesAClientWhoseIssuerIsRevoked) {
  const TestAuthority between("between", authority_);
  WriteFile(options_.tls.crl_folder + "/a.crl",
            authority_.Revoke({{between.certificate(), ""}}));
  Start();
  KeyPair own = between.IssueClient();
  own.certificate += between.certificate();
  ExpectRefused(&own, "revoked");
}

// gRPC's clients leave without a word.
TEST_F(TlsTest, CountsClientsThatDoNotTrustIt) {
  Start();
  const Client client(NewChannel(&client_, other_));
  EXPECT_EQ(Info(client).error_code(), grpc::StatusCode::UNAVAILABLE);
  while (Failures("incomplete") == 0) std::this_thread::yield();
  TlsClient wary;
  wary.trusts_server = false;
  EXPECT_EQ(ShakeHands(port(), wary).version, "");
  WaitForFailure("aborted");
}

TEST_F(TlsTest, ClientsRefuseAServerOfAnotherName) {
  CertificateOptions options;
  options.alternative_names = "DNS:elsewhere";
  WriteServer(authority_.Issue("elsewhere", options));
  Start();
  const grpc::Status status = Info(NewClient(client_));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, SpeaksTls12AndLaterOnly) {
  Start();
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
    EXPECT_EQ(ShakeHands(port(), {&client_, version}).version, "");
  }
  WaitFor("qgemm_tls_handshake_failures_total{reason=\"protocol\"}", 2);
  const TlsHandshake old = ShakeHands(port(), {&client_, TLS1_2_VERSION});
  EXPECT_EQ(old.version, "TLSv1.2");
  EXPECT_TRUE(old.accepted);
  const TlsHandshake latest = ShakeHands(port(), {&client_});
  EXPECT_EQ(latest.version, "TLSv1.3");
  EXPECT_TRUE(latest.accepted);
}

TEST_F(TlsTest, ClosesWhatIsNoTls) {
  Start();
  const FileDescriptor connection = ConnectToPort(port());
  const std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  ASSERT_EQ(send(connection.get(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
  WaitForEndOf(connection);
  WaitForFailure("protocol");
}

TEST_F(TlsTest, ClosesAHandshakeThatDoesNotEnd) {
  options_.grpc.channel_arguments = {"grpc.server_handshake_timeout_ms=100"};
  Start();
  const FileDescriptor silent = ConnectToPort(port());
  const FileDescriptor begun = ConnectToPort(port());
  const std::string half("\x16\x03\x01\x02\x00\x01\x00\x01", 8);
  ASSERT_EQ(send(begun.get(), half.data(), half.size(), 0), 8);
  WaitForEndOf(silent);
  WaitForEndOf(begun);
  WaitFor("qgemm_tls_handshake_failures_total{reason=\"incomplete\"}", 2);
}

TEST_F(TlsTest, BoundsConnectionsBeforeTheirHandshakes) {
  options_.connections.max_peer_connections = 2;
  Start();
  const FileDescriptor first = ConnectToPort(port());
  const FileDescriptor second = ConnectToPort(port());
  WaitForEndOf(ConnectToPort(port()));
  EXPECT_EQ(Metric("qgemm_connections_refused_total{reason=\"peer\"}"), 1);
}

TEST_F(TlsTest, ShowsANewCertificateAndServesOldConnectionsOn) {
  Start();
  const Client old = NewClient(client_);
  ASSERT_TRUE(Info(old).ok());
  const KeyPair next = authority_.IssueServer("next");
  WriteServer(next);
  WaitUntilShown(next);
  EXPECT_TRUE(Info(old).ok());
  EXPECT_TRUE(Info(NewClient(client_)).ok());
}

TEST_F(TlsTest, KeepsItsCertificateWhenTheNextIsWrong) {
  Start();
  const std::string before = Shown();
  WriteFile(options_.tls.key, authority_.IssueServer().key);
  while (Metric("qgemm_tls_reload_failures_total") == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Shown(), before);
  EXPECT_TRUE(Info(NewClient(client_)).ok());
  const KeyPair next = authority_.IssueServer("next");
  WriteServer(next);
  WaitUntilShown(next);
}

TEST_F(TlsTest, TakesANewAuthorityAndDropsTheOld) {
  Start();
  const Client old = NewClient(client_);
  ASSERT_TRUE(Info(old).ok());
  WriteFile(options_.tls.client_ca, other_.certificate());
  const KeyPair own = other_.IssueClient();
  while (!Info(Client(NewChannel(&own, authority_))).ok()) {
  }
  EXPECT_EQ(Info(NewClient(client_)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Info(old).ok());
}

TEST_F(TlsTest, RefusesWhatIsRevokedWhileItServes) {
  Start();
  const Client old = NewClient(client_);
  ASSERT_TRUE(Info(old).ok());
  WriteFile(options_.tls.crl_folder + "/a.crl", authority_.Revoke({client_}));
  while (Info(NewClient(client_)).ok()) {
  }
  EXPECT_GE(Failures("revoked"), 1);
  EXPECT_TRUE(Info(old).ok());
  EXPECT_TRUE(Info(NewClient(authority_.IssueClient())).ok());
}

TEST_F(TlsTest, TellsWhenCertificatesEnd) {
  CertificateOptions options;
  options.end = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 500);
  WriteServer(authority_.Issue("server", options));
  Start();
  EXPECT_EQ(
      Metric("qgemm_tls_certificate_expiry_seconds{certificate=\"server\"}"),
      absl::ToUnixSeconds(options.end));
  EXPECT_GT(
      Metric("qgemm_tls_certificate_expiry_seconds{certificate=\"client_ca\"}"),
      absl::ToUnixSeconds(options.end));
}

TEST_F(TlsTest, DoesNotStartWithFilesThatAreWrong) {
  WriteFile(options_.tls.key, authority_.IssueServer().key);
  const auto server = Server::Create(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(), HasSubstr("--tls_key"));
}

}  // namespace
}  // namespace qgemm
