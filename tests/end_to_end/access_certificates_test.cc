// SPDX-License-Identifier: Apache-2.0
//
// Clients of the access table by the names of their certificates.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/server.h"
#include "tests/end_to_end/access_server.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr char kGemm[] = "/qgemm.v1.Qgemm/Gemm";
constexpr char kUnload[] = "/qgemm.v1.Qgemm/UnloadWeights";
constexpr char kInfo[] = "/qgemm.v1.Qgemm/GetServerInfo";
constexpr auto kUnauthenticated = grpc::StatusCode::UNAUTHENTICATED;

class AccessCertificatesTest : public ::testing::Test {
 protected:
  AccessCertificatesTest() {
    ServerOptions options;
    options.listen = {"tls:127.0.0.1:0"};
    options.tls.certificate = folder_.File("server.pem");
    options.tls.key = folder_.File("server.key");
    options.tls.client_ca = folder_.File("ca.pem");
    options.access_table = folder_.File("access.json");
    const KeyPair server = authority_.IssueServer();
    WriteFile(options.tls.certificate, server.certificate);
    WriteFile(options.tls.key, server.key);
    WriteFile(options.tls.client_ca, authority_.certificate());
    // This process's user is of no use under TLS.
    WriteFile(options.access_table,
              TableOf({{"spiffe", {MatchName("spiffe", "spiffe://corp/a")}, {}},
                       {"san", {MatchName("san", "a.corp")}, {}},
                       {"cn", {MatchName("cn", "anna")}, {}},
                       {"user", {MatchThisUser()}, {"compute", "load"}},
                       {"token", {MatchToken("t")}, {}},
                       {"proxy", {MatchName("cn", "haproxy")}, {}, true}}));
    auto created = Server::Create(options);
    CHECK_OK(created.status());
    server_ = *std::move(created);
  }

  // The client of a call that needs a right, by what the server says it lacks;
  // else the error.
  std::string Who(const std::string& name, const std::string& alternative_names,
                  const Metadata& metadata = {}) const {
    const grpc::Status status =
        Call(NewChannel(name, alternative_names), kUnload, metadata);
    EXPECT_FALSE(status.ok());
    if (status.error_code() == kUnauthenticated) return "";
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
        << status.error_message();
    constexpr size_t kBefore = sizeof("client ") - 1;
    const std::string& message = status.error_message();
    return message.substr(kBefore, message.find(' ', kBefore) - kBefore);
  }

  std::shared_ptr<grpc::Channel> NewChannel(
      const std::string& name, const std::string& alternative_names) const {
    CertificateOptions certificate;
    certificate.alternative_names = alternative_names;
    const KeyPair own = authority_.Issue(name, certificate);
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.certificate();
    options.pem_cert_chain = own.certificate;
    options.pem_private_key = own.key;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", server_->ports().front()),
        grpc::SslCredentials(options), arguments);
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  std::unique_ptr<Server> server_;
};

TEST_F(AccessCertificatesTest, AreKnownByEachKindOfName) {
  EXPECT_EQ(Who("x", "URI:spiffe://corp/a"), "spiffe");
  EXPECT_EQ(Who("x", "DNS:a.corp"), "san");
  EXPECT_EQ(Who("anna", ""), "cn");
}

TEST_F(AccessCertificatesTest, TheSpiffeIdComesFirstAndTheCommonNameLast) {
  EXPECT_EQ(Who("anna", "DNS:a.corp,URI:spiffe://corp/a"), "spiffe");
  EXPECT_EQ(Who("anna", "DNS:a.corp"), "san");
  EXPECT_EQ(Who("anna", "DNS:b.corp,URI:spiffe://corp/b"), "cn");
}

TEST_F(AccessCertificatesTest, NamesOfOneKindAreNoneOfAnother) {
  EXPECT_EQ(Who("a.corp", ""), "");
  EXPECT_EQ(Who("spiffe://corp/a", ""), "");
  EXPECT_EQ(Who("x", "DNS:anna"), "");
}

TEST_F(AccessCertificatesTest, TheUserDoesNotMakeUpForACertificate) {
  EXPECT_EQ(Who("nobody", ""), "");
  EXPECT_EQ(Call(NewChannel("nobody", ""), kInfo).error_code(),
            kUnauthenticated);
}

TEST_F(AccessCertificatesTest, ATokenCountsBeforeTheCertificate) {
  EXPECT_EQ(Who("anna", "", WithToken("t")), "token");
  EXPECT_EQ(Who("nobody", "", WithToken("t")), "token");
  EXPECT_EQ(Who("anna", "", WithToken("u")), "");
}

TEST_F(AccessCertificatesTest, AProxyWithACertificateNamesTheClient) {
  EXPECT_EQ(Who("haproxy", "", {{"x-qgemm-identity", "cn:anna"}}), "cn");
  EXPECT_EQ(Who("haproxy", ""), "");
  EXPECT_EQ(Who("anna", "", {{"x-qgemm-identity", "san:a.corp"}}), "cn");
}

TEST_F(AccessCertificatesTest, OneConnectionIsFoundOnce) {
  const auto channel = NewChannel("anna", "");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Call(channel, kInfo).ok());
    EXPECT_EQ(Call(channel, kGemm).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
  }
}

}  // namespace
}  // namespace qgemm
