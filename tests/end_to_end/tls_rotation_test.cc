// SPDX-License-Identifier: Apache-2.0
//
// The server as a process of its own, called without a pause while its
// certificates and its access table with the callers' tokens are swapped every
// second, every other time for wrong ones.
// QGEMM_ROTATION_SECONDS sets for how long; a few seconds without.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "tests/end_to_end/access_server.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tls_client.h"

namespace qgemm {
namespace {

// A client by its certificate, and one by a token or the next.
std::string TableWith(int token) {
  return TableOf({{"all", {MatchName("cn", "client")}, {"compute", "load"}},
                  {"tokens",
                   {MatchToken(absl::StrCat("token ", token)),
                    MatchToken(absl::StrCat("token ", token + 1))},
                   {"compute"}}});
}

// 2,000 calls a second together, each of 8 KiB.
constexpr int kCallers = 4;
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(2);
constexpr int64_t kK = 4096;

absl::Duration HowLong() {
  int seconds = 0;
  const char* const text = std::getenv("QGEMM_ROTATION_SECONDS");
  if (text == nullptr || !absl::SimpleAtoi(text, &seconds)) seconds = 6;
  return absl::Seconds(seconds);
}

// A folder that is swapped as Kubernetes does: names lead through the link
// ..data to the folder of a version.
class SwappedFolder {
 public:
  explicit SwappedFolder(const std::string& path) : path_(path) {
    std::filesystem::create_directory(path_);
    for (const char* const name : {"tls.crt", "tls.key"}) {
      std::filesystem::create_symlink(absl::StrCat("..data/", name),
                                      absl::StrCat(path_, "/", name));
    }
  }

  void Swap(const KeyPair& pair) {
    const std::string version = absl::StrCat("..", ++versions_);
    const std::string folder = absl::StrCat(path_, "/", version);
    std::filesystem::create_directory(folder);
    WriteFile(folder + "/tls.crt", pair.certificate);
    WriteFile(folder + "/tls.key", pair.key);
    std::filesystem::create_symlink(version, path_ + "/..tmp");
    std::filesystem::rename(path_ + "/..tmp", path_ + "/..data");
    std::filesystem::remove_all(absl::StrCat(path_, "/..", versions_ - 1));
  }

 private:
  const std::string path_;
  int versions_ = 0;
};

class TlsRotationTest : public ::testing::Test {
 protected:
  TlsRotationTest() {
    WriteFile(folder_.File("ca.crt"), authority_.certificate());
    WriteTable(TableWith(token_));
    swapped_.Swap(shown_last_);
    server_ = std::make_unique<ChildServer>(std::vector<std::string>{
        "--listen=tls:127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
        "--tls_cert=" + folder_.File("certs/tls.crt"),
        "--tls_key=" + folder_.File("certs/tls.key"),
        "--tls_client_ca=" + folder_.File("ca.crt"),
        "--access_table=" + folder_.File("access.json")});
    CHECK(absl::SimpleAtoi(server_->WaitForOutput("serving on tls:127.0.0.1:"),
                           &port_));
    CHECK(absl::SimpleAtoi(server_->WaitForOutput("metrics on port "),
                           &metrics_port_));
  }

  Client NewClient() const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.certificate();
    options.pem_cert_chain = own_.certificate;
    options.pem_private_key = own_.key;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Client(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                            grpc::SslCredentials(options),
                                            arguments));
  }

  void Count(const grpc::Status& status) {
    ++calls_;
    if (status.ok()) return;
    ++failed_;
    ADD_FAILURE() << status.error_message();
  }

  grpc::Status CallWithToken(const Client& client, int token,
                             const v1::GemmRequest& request) const {
    grpc::ClientContext context;
    AddTo(WithToken(absl::StrCat("token ", token)), &context);
    v1::GemmResponse response;
    return client.stub()->Gemm(&context, request, &response);
  }

  // Calls at a rate, over one connection, by the certificate and by the token
  // in turn.
  void CallOn(const v1::GemmRequest& request) {
    const Client client = NewClient();
    absl::Time due = absl::Now();
    for (int i = 0; !ended_; ++i) {
      Count(i % 2 == 0 ? client.Gemm(request).status
                       : CallWithToken(client, token_, request));
      due += kBetweenCalls;
      absl::SleepFor(due - absl::Now());
    }
  }

  // Calls once on each of many connections.
  void ConnectOn(const v1::GemmRequest& request) {
    while (!ended_) {
      Count(NewClient().Gemm(request).status);
      ++connections_;
    }
  }

  void WriteTable(const std::string& text) {
    WriteFile(folder_.File("access.new"), text);
    std::filesystem::rename(folder_.File("access.new"),
                            folder_.File("access.json"));
  }

  // A wrong table, or one without the token before the callers' own.
  void WriteNextTable() {
    if (swaps_ % 2 == 0) return WriteTable(R"({"clients": [{"id": "half)");
    WriteTable(TableWith(token_));
  }

  // The next set, every other one wrong in one of three ways.
  void SwapNext() {
    KeyPair pair = authority_.IssueServer();
    switch (++swaps_ % 6) {
      case 1:
        pair.key = authority_.IssueServer().key;
        break;
      case 3:
        pair.certificate.resize(pair.certificate.size() / 2);
        break;
      case 5:
        pair.key.clear();
        break;
      default:
        shown_last_ = pair;
        break;
    }
    swapped_.Swap(pair);
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  const KeyPair own_ = authority_.IssueClient();
  KeyPair shown_last_ = authority_.IssueServer();
  SwappedFolder swapped_{folder_.File("certs")};
  std::unique_ptr<ChildServer> server_;
  int port_ = 0;
  int metrics_port_ = 0;
  int swaps_ = 0;
  std::atomic<int> token_{1};  // in the table, with the next one
  std::atomic<bool> ended_{false};
  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> failed_{0};
  std::atomic<int64_t> connections_{0};
};

TEST_F(TlsRotationTest, NoCallFailsWhileCertificatesAndTokensAreSwapped) {
  RandomGenerator random(FreshSeed());
  LoadLayer(NewClient(), 256, kK, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, kK, &random);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] { CallOn(request); });
  }
  callers.emplace_back([&] { ConnectOn(request); });
  const absl::Time start = absl::Now();
  const absl::Time end = start + HowLong();
  while (absl::Now() < end || swaps_ % 6 != 0) {
    SwapNext();
    // The server has the table of two swaps ago, with this token.
    if (swaps_ % 2 == 1) ++token_;
    absl::SleepFor(absl::Milliseconds(500));
    WriteNextTable();
    absl::SleepFor(absl::Milliseconds(500));
  }
  ended_ = true;
  for (std::thread& caller : callers) caller.join();
  while (ShakeHands(port_, {&own_}).certificate != shown_last_.certificate) {
  }
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(CallWithToken(NewClient(), 1, request).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_GT(ScrapeMetric(metrics_port_, "qgemm_access_reload_failures_total"),
            0);
  const double refused =
      ScrapeMetric(metrics_port_, "qgemm_tls_reload_failures_total");
  EXPECT_GT(refused, 0);
  std::cout << calls_ << " calls in " << absl::Now() - start << ", " << failed_
            << " failed, " << connections_ << " connections of one call, "
            << swaps_ << " swaps, of which the server refused " << refused
            << std::endl;
}

}  // namespace
}  // namespace qgemm
