// SPDX-License-Identifier: Apache-2.0
//
// Connections by TLS and calls with a token, to a plain gRPC server with
// certificates that the test makes.

#include "client/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "qgemm/client.h"
#include "tests/client/fake_service.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

// Long enough that a test fails by its own timeout, not by this.
constexpr absl::Duration kFar = absl::Minutes(5);
constexpr char kNames[] = "DNS:server.test,IP:127.0.0.1";

// A certificate for such names.
KeyPair IssueFor(const std::string& names, const TestAuthority& authority) {
  CertificateOptions options;
  options.alternative_names = names;
  return authority.Issue("test", options);
}

enum class Clients { kAnybody, kWithCertificate };

class TlsTest : public testing::Test {
 protected:
  // A server with that certificate, which takes certificates of authority_.
  std::unique_ptr<FakeService> Serve(const KeyPair& identity,
                                     Clients clients) const {
    grpc::SslServerCredentialsOptions options(
        clients == Clients::kAnybody
            ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = authority_.certificate();
    options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
    FakeService::Listener listener;
    listener.credentials = grpc::SslServerCredentials(options);
    return std::make_unique<FakeService>(listener);
  }
  std::unique_ptr<FakeService> Serve(Clients clients) {
    return Serve(IssueFor(kNames, authority_), clients);
  }

  // Options that trust authority_.
  ClientOptions Trusting() const {
    ClientOptions options;
    options.connect_timeout = kFar;
    options.tls.emplace().ca_pem = authority_.certificate();
    return options;
  }

  static void Show(const KeyPair& identity, ClientOptions* options) {
    options->tls->certificate_pem = identity.certificate;
    options->tls->key_pem = identity.key;
  }

  // Why a connection is not made. The time is enough for a handshake; were it
  // not, the reason would be another.
  static std::string Refusal(const std::string& target, ClientOptions options) {
    options.connect_timeout = absl::Seconds(2);
    const absl::Status status = Client::Connect(target, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    return std::string(status.message());
  }

  static void ExpectServes(const std::string& target,
                           const ClientOptions& options) {
    const auto client = Client::Connect(target, options);
    ASSERT_TRUE(client.ok()) << client.status();
    const auto info = (*client)->GetServerInfo();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->backend, "fake");
  }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.File(name);
    WriteFile(path, text);
    return path;
  }

  TestAuthority authority_{"authority"};
  TestAuthority stranger_{"another authority"};
  const TemporaryFolder folder_;
};

TEST_F(TlsTest, ConnectsToAServerOfTheAuthority) {
  const auto service = Serve(Clients::kAnybody);
  ExpectServes(service->address(), Trusting());
}

TEST_F(TlsTest, ShowsItsCertificateIfAsked) {
  const auto service = Serve(Clients::kWithCertificate);
  ClientOptions options = Trusting();
  Show(IssueFor("DNS:client.test", authority_), &options);
  ExpectServes(service->address(), options);
}

TEST_F(TlsTest, TakesCertificatesFromFiles) {
  const auto service = Serve(Clients::kWithCertificate);
  const KeyPair identity = IssueFor("DNS:client.test", authority_);
  ClientOptions options;
  options.connect_timeout = kFar;
  TlsOptions& tls = options.tls.emplace();
  tls.ca_file = Write("ca", authority_.certificate());
  tls.certificate_file = Write("certificate", identity.certificate);
  tls.key_file = Write("key", identity.key);
  ExpectServes(service->address(), options);
}

// A connection that fails is tried again, with what the file has then.
TEST_F(TlsTest, ReadsFilesAgain) {
  const auto service = Serve(Clients::kAnybody);
  ClientOptions options;
  options.connect_timeout = kFar;
  options.tls.emplace().ca_file = Write("ca", stranger_.certificate());
  auto connecting = std::async(std::launch::async, [&] {
    return Client::Connect(service->address(), options).status();
  });
  EXPECT_THAT(Refusal(service->address(), options),
              HasSubstr("leads to none of the authorities"));
  Write("ca", authority_.certificate());
  EXPECT_TRUE(connecting.get().ok());
}

TEST_F(TlsTest, RefusesAServerOfAnotherAuthority) {
  const auto service = Serve(IssueFor(kNames, stranger_), Clients::kAnybody);
  EXPECT_THAT(Refusal(service->address(), Trusting()),
              HasSubstr("leads to none of the authorities"));
}

TEST_F(TlsTest, RefusesAServerOfAnotherAuthorityOfTheSameName) {
  const TestAuthority same_name("authority");
  const auto service = Serve(IssueFor(kNames, same_name), Clients::kAnybody);
  EXPECT_THAT(Refusal(service->address(), Trusting()),
              HasSubstr("has another key"));
}

TEST_F(TlsTest, RefusesAServerOfAnotherName) {
  const auto service =
      Serve(IssueFor("DNS:other.test", authority_), Clients::kAnybody);
  EXPECT_THAT(Refusal(service->address(), Trusting()),
              HasSubstr("does not have the name of the target"));
  ClientOptions options = Trusting();
  options.tls->server_name = "server.test";
  EXPECT_THAT(Refusal(service->address(), options),
              HasSubstr("does not have the name 'server.test'"));
}

TEST_F(TlsTest, ChecksTheNameThatItIsGiven) {
  const auto service =
      Serve(IssueFor("DNS:other.test", authority_), Clients::kAnybody);
  ClientOptions options = Trusting();
  options.tls->server_name = "other.test";
  ExpectServes(service->address(), options);
}

TEST_F(TlsTest, ChecksTheNameThatWasLookedUp) {
  const auto service =
      Serve(IssueFor("DNS:localhost", authority_), Clients::kAnybody);
  ExpectServes(absl::StrCat("dns:///localhost:", service->port()), Trusting());
  EXPECT_THAT(
      Refusal(absl::StrCat("dns:///127.0.0.1:", service->port()), Trusting()),
      HasSubstr("does not have the name of the target"));
}

TEST_F(TlsTest, ExplainsThatACertificateMayBeDemanded) {
  const auto service = Serve(Clients::kWithCertificate);
  EXPECT_THAT(Refusal(service->address(), Trusting()),
              HasSubstr("may demand a client certificate"));
}

TEST_F(TlsTest, ExplainsThatItsCertificateMayBeRefused) {
  const auto service = Serve(Clients::kWithCertificate);
  ClientOptions options = Trusting();
  Show(IssueFor("DNS:client.test", stranger_), &options);
  EXPECT_THAT(Refusal(service->address(), options),
              HasSubstr("may not accept the client's certificate"));
}

TEST_F(TlsTest, ExplainsAKeyThatIsAnothers) {
  const auto service = Serve(Clients::kWithCertificate);
  ClientOptions options = Trusting();
  Show(IssueFor("DNS:client.test", authority_), &options);
  options.tls->key_pem = IssueFor("DNS:client.test", authority_).key;
  EXPECT_THAT(Refusal(service->address(), options),
              HasSubstr("the key is not the certificate's"));
}

TEST_F(TlsTest, ExplainsWhereOneSideAloneHasTls) {
  const FakeService plain;
  EXPECT_THAT(Refusal(plain.address(), Trusting()),
              HasSubstr("does not speak TLS"));
  const auto service = Serve(Clients::kAnybody);
  EXPECT_THAT(Refusal(service->address(), ClientOptions()),
              HasSubstr("may speak TLS alone"));
}

TEST_F(TlsTest, UnixSocketsStayPlain) {
  const FakeService service;
  ExpectServes(service.unix_address(), Trusting());
}

TEST_F(TlsTest, RefusesOptionsThatDoNotGoTogether) {
  const KeyPair identity = IssueFor("DNS:client.test", authority_);
  const std::string ca = Write("ca", authority_.certificate());
  TlsOptions none, mixed, no_key, missing;
  mixed.ca_file = ca;
  mixed.ca_pem = authority_.certificate();
  no_key.ca_pem = authority_.certificate();
  no_key.certificate_pem = identity.certificate;
  missing.ca_file = folder_.File("none");
  const struct {
    TlsOptions tls;
    const char* problem;
  } cases[] = {{none, "ca_file is empty"},
               {mixed, "give files or texts"},
               {no_key, "go together"},
               {missing, "No such file"}};
  for (const auto& c : cases) {
    ClientOptions options;
    options.tls = c.tls;
    const absl::Status status =
        Client::Connect("127.0.0.1:1", options).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.problem));
    EXPECT_FALSE(absl::IsUnavailable(status)) << status;
  }
}

TEST_F(TlsTest, EveryCallCarriesTheToken) {
  const auto service = Serve(Clients::kAnybody);
  service->set_stream([](auto*) { return grpc::Status::OK; });
  ClientOptions options = Trusting();
  options.token = "secret";
  const auto client = Client::Connect(service->address(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<float> a(8);
  GemmRequest gemm;
  gemm.weights = "layer";
  gemm.m = 1;
  gemm.SetA(a);
  int calls = 0;
  const auto expect_token = [&] {
    EXPECT_GT(service->calls(), calls);
    calls = service->calls();
    EXPECT_EQ(service->authorization(), "Bearer secret");
  };
  EXPECT_TRUE((*client)->GetServerInfo().ok());
  expect_token();
  EXPECT_TRUE((*client)->Gemm(gemm).ok());
  expect_token();
  DenseUpload dense;
  dense.n = 1;
  dense.k = 8;
  dense.SetValues(a);
  EXPECT_TRUE((*client)->LoadWeights(dense).ok());
  expect_token();
  const auto stream = (*client)->GemmStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE((*stream)->Finish().ok());
  expect_token();
}

TEST_F(TlsTest, ATokenWithoutTlsStaysOnTheMachine) {
  const FakeService service;
  ClientOptions options;
  options.connect_timeout = kFar;
  options.token = "secret";
  for (const std::string& target :
       {service.address(), service.unix_address()}) {
    const auto client = Client::Connect(target, options);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*client)->GetServerInfo().ok());
    EXPECT_EQ(service.authorization(), "Bearer secret");
  }
  for (const std::string target :
       {"gpu.corp:50051", "10.0.0.1:50051", "unix:/run/s,gpu.corp:50051"}) {
    const absl::Status status = Client::Connect(target, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target;
    EXPECT_THAT(std::string(status.message()), HasSubstr("without TLS"));
  }
}

TEST_F(TlsTest, ATokenThatChangesInItsFileIsSent) {
  const FakeService service;
  ClientOptions options;
  options.connect_timeout = kFar;
  options.token_file = Write("token", "first\n");
  const auto client = Client::Connect(service.address(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->GetServerInfo().ok());
  EXPECT_EQ(service.authorization(), "Bearer first");
  Write("token", "second\n");
  while (service.authorization() != "Bearer second") {
    ASSERT_TRUE((*client)->GetServerInfo().ok());
  }
}

TEST(ExplainConnectFailureTest, OtherReasonsStandAlone) {
  EXPECT_EQ(ExplainConnectFailure("No such file or directory", std::nullopt),
            "No such file or directory");
}

}  // namespace
}  // namespace qgemm
