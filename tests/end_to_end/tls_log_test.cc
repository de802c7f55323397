// SPDX-License-Identifier: Apache-2.0
//
// The log of a server has a reason for each kind of peer that it refuses in the
// handshake, and the peer is told nothing: no byte comes over TLS, not even the
// settings that a client that is let in is sent.

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tls_client.h"

namespace qgemm {
namespace {

using ::nlohmann::json;

constexpr char kTable[] = R"({"clients": [{"id": "all",
    "match": [{"cn": "client"}], "rights": ["compute"], "names": [""]}]})";

class TlsLogTest : public ::testing::Test {
 protected:
  // Starts the server; certificates of those clients are revoked.
  int Start(absl::Span<const KeyPair> revoked = {}) {
    const KeyPair pair = authority_.IssueServer();
    WriteFile(folder_.File("server.pem"), pair.certificate);
    WriteFile(folder_.File("server.key"), pair.key);
    WriteFile(folder_.File("ca.pem"), authority_.certificate());
    WriteFile(folder_.File("access.json"), kTable);
    std::filesystem::create_directory(folder_.File("crls"));
    if (!revoked.empty()) {
      WriteFile(folder_.File("crls/a.crl"), authority_.Revoke(revoked));
    }
    server_ = std::make_unique<ChildServer>(std::vector<std::string>{
        "--backend=cpu", "--listen=tls:127.0.0.1:0", "--log_format=json",
        "--tls_cert=" + folder_.File("server.pem"),
        "--tls_key=" + folder_.File("server.key"),
        "--tls_client_ca=" + folder_.File("ca.pem"),
        "--tls_crl_dir=" + folder_.File("crls"),
        "--access_table=" + folder_.File("access.json")});
    const std::string served =
        server_->WaitForOutput("serving on tls:127.0.0.1:");
    int port = 0;
    CHECK(absl::SimpleAtoi(served.substr(0, served.find('"')), &port));
    return port;
  }

  // The server's event of the one handshake that has failed.
  json ExpectRefused(int port, const TlsClient& client) {
    EXPECT_FALSE(ShakeHands(port, client).accepted);
    const std::string name = R"("event":"tls_handshake_failed")";
    server_->WaitForOutput(name);
    json event;
    for (const absl::string_view line :
         absl::StrSplit(server_->output(), '\n')) {
      if (absl::StrContains(line, name)) event = json::parse(line);
    }
    return event;
  }

  CertificateOptions Valid(absl::Duration begin, absl::Duration end) {
    CertificateOptions options;
    options.begin = absl::Now() + begin;
    options.end = absl::Now() + end;
    return options;
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  std::unique_ptr<ChildServer> server_;
};

TEST_F(TlsLogTest, LetsInWhoIsNotRefused) {
  const KeyPair own = authority_.IssueClient();
  EXPECT_TRUE(ShakeHands(Start(), {&own}).accepted);
}

TEST_F(TlsLogTest, NoCertificate) {
  const json event = ExpectRefused(Start(), {});
  EXPECT_EQ(event["reason"], "no_certificate");
}

TEST_F(TlsLogTest, AnotherAuthority) {
  const KeyPair own = TestAuthority("other").IssueClient();
  const json event = ExpectRefused(Start(), {&own});
  EXPECT_EQ(event["reason"], "unknown_ca");
}

TEST_F(TlsLogTest, ACertificateThatHasEnded) {
  const KeyPair own =
      authority_.Issue("client", Valid(-absl::Hours(2), -absl::Hours(1)));
  const json event = ExpectRefused(Start(), {&own});
  EXPECT_EQ(event["reason"], "expired");
}

TEST_F(TlsLogTest, ACertificateBeforeItsTime) {
  const KeyPair own =
      authority_.Issue("client", Valid(absl::Hours(1), absl::Hours(2)));
  const json event = ExpectRefused(Start(), {&own});
  EXPECT_EQ(event["reason"], "not_yet_valid");
}

TEST_F(TlsLogTest, ARevokedCertificateAndWhose) {
  const KeyPair own = authority_.IssueClient();
  const json event = ExpectRefused(Start({own}), {&own});
  EXPECT_EQ(event["reason"], "revoked");
  EXPECT_TRUE(absl::StrContains(event["subject"].dump(), "client")) << event;
}

TEST_F(TlsLogTest, AnOldVersion) {
  const KeyPair own = authority_.IssueClient();
  const json event = ExpectRefused(Start(), {&own, TLS1_1_VERSION});
  EXPECT_EQ(event["reason"], "protocol");
}

TEST_F(TlsLogTest, APeerThatDoesNotTrustIt) {
  TlsClient wary;
  wary.trusts_server = false;
  const json event = ExpectRefused(Start(), wary);
  EXPECT_EQ(event["reason"], "aborted");
}

}  // namespace
}  // namespace qgemm
