// SPDX-License-Identifier: Apache-2.0
//
// qgemm as a process with TLS and a token, against a server that demands a
// certificate.

#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/processes.h"
#include "tests/client/fake_service.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::HasSubstr;

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    const KeyPair server = authority_.IssueServer();
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = authority_.certificate();
    options.pem_key_cert_pairs.push_back({server.key, server.certificate});
    FakeService::Listener listener;
    listener.credentials = grpc::SslServerCredentials(options);
    service_ = std::make_unique<FakeService>(listener);
    const KeyPair client = authority_.IssueClient();
    ca_ = Write("ca", authority_.certificate());
    certificate_ = Write("certificate", client.certificate);
    key_ = Write("key", client.key);
    token_ = Write("token", "secret\n");
  }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.File(name);
    WriteFile(path, text);
    return path;
  }

  CommandResult Info(std::vector<std::string> flags) const {
    flags.insert(flags.begin(),
                 {"cli/qgemm", "info", "--server=" + service_->address()});
    return RunProgram(flags);
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  std::unique_ptr<FakeService> service_;
  std::string ca_, certificate_, key_, token_;
};

TEST_F(ConnectionTest, FlagsGiveCertificatesAndToken) {
  const CommandResult result =
      Info({"--tls_ca=" + ca_, "--tls_client_cert=" + certificate_,
            "--tls_client_key=" + key_, "--token_file=" + token_,
            "--connect_timeout=60s"});
  EXPECT_EQ(result.exit_code, kDone) << result.err;
  EXPECT_EQ(service_->authorization(), "Bearer secret");
}

TEST_F(ConnectionTest, SoDoesTheEnvironment) {
  const std::vector<std::pair<const char*, std::string>> variables = {
      {"QGEMM_TLS_CA", ca_},
      {"QGEMM_TLS_CLIENT_CERT", certificate_},
      {"QGEMM_TLS_CLIENT_KEY", key_},
      {"QGEMM_TOKEN_FILE", token_}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const CommandResult result = Info({"--connect_timeout=60s"});
  for (const auto& [name, value] : variables) unsetenv(name);
  EXPECT_EQ(result.exit_code, kDone) << result.err;
  EXPECT_EQ(service_->authorization(), "Bearer secret");
}

TEST_F(ConnectionTest, ARefusedConnectionSaysWhy) {
  const CommandResult result =
      Info({"--tls_ca=" + ca_, "--connect_timeout=2s"});
  EXPECT_EQ(result.exit_code, kFailed);
  EXPECT_THAT(result.err, HasSubstr("may demand a client certificate"));
}

TEST_F(ConnectionTest, FlagsThatDoNotGoTogetherAreWrongUsage) {
  const CommandResult result = Info({"--tls_client_cert=" + certificate_});
  EXPECT_EQ(result.exit_code, kWrongUsage);
  EXPECT_THAT(result.err, HasSubstr("--tls_ca"));
}

}  // namespace
}  // namespace qgemm
