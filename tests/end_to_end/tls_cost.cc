// SPDX-License-Identifier: Apache-2.0
//
// Measures what TLS with client certificates adds to a call: one stock client
// calls the server as a process of its own, one call at a time, in turns over
// a plain and a TLS connection to it. Prints the medians of both and their
// spread over the turns. Run it on an idle machine:
//   bazel run //tests/end_to_end:tls_cost
// Elsewhere, in a folder with portable builds of this and of qgemm_server as
// server/qgemm_server, and the libraries that they need in lib:
//   tests/tls_cost

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr char kTable[] = R"({"clients": [{"id": "all",
    "match": [{"cn": "client"}, {"uid": %d}],
    "rights": ["compute", "load", "admin", "debug"], "names": [""]}]})";

constexpr int kTurns = 20;
constexpr int kCallsOfATurn = 500;
constexpr int64_t kN = 256;

// Microseconds.
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MedianOfATurn(const Client& client, const v1::GemmRequest& request) {
  std::vector<double> latencies;
  for (int i = 0; i < kCallsOfATurn; ++i) {
    const absl::Time start = absl::Now();
    const auto answer = client.Gemm(request);
    CHECK(answer.ok()) << answer.status.error_message();
    latencies.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  return Median(std::move(latencies));
}

void Measure(const Client& plain, const Client& tls, int64_t k) {
  RandomGenerator random(1);
  LoadLayer(plain, kN, k, &random);
  const v1::GemmRequest request = MakeGemm("layer", 1, k, &random);
  MedianOfATurn(plain, request);
  MedianOfATurn(tls, request);
  std::vector<double> medians[2];
  for (int turn = 0; turn < kTurns; ++turn) {
    medians[0].push_back(MedianOfATurn(plain, request));
    medians[1].push_back(MedianOfATurn(tls, request));
  }
  for (const auto& [name, of] :
       {std::pair{"plain", medians[0]}, std::pair{"tls", medians[1]}}) {
    const auto [least, most] = std::minmax_element(of.begin(), of.end());
    std::printf("%lld KiB %-5s p50 %.1f us (%.1f to %.1f)\n",
                static_cast<long long>(k * 2 / 1024), name, Median(of), *least,
                *most);
  }
  std::printf("%lld KiB ratio %.3f\n", static_cast<long long>(k * 2 / 1024),
              Median(medians[1]) / Median(medians[0]));
}

void Run() {
  const TemporaryFolder folder;
  const TestAuthority authority("authority");
  const KeyPair server = authority.IssueServer();
  const KeyPair own = authority.IssueClient();
  WriteFile(folder.File("ca.crt"), authority.certificate());
  WriteFile(folder.File("tls.crt"), server.certificate);
  WriteFile(folder.File("tls.key"), server.key);
  char table[sizeof(kTable) + 16];
  std::snprintf(table, sizeof(table), kTable, static_cast<int>(getuid()));
  WriteFile(folder.File("access.json"), table);
  ChildServer child({"--backend=cpu", "--listen=tls:127.0.0.1:0,127.0.0.1:0",
                     "--tls_cert=" + folder.File("tls.crt"),
                     "--tls_key=" + folder.File("tls.key"),
                     "--tls_client_ca=" + folder.File("ca.crt"),
                     "--access_table=" + folder.File("access.json")});
  const std::string tls_port = child.WaitForOutput("serving on tls:127.0.0.1:");
  const std::string port = child.WaitForOutput("serving on 127.0.0.1:");
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.certificate();
  options.pem_cert_chain = own.certificate;
  options.pem_private_key = own.key;
  const Client plain(absl::StrCat("127.0.0.1:", port));
  const Client tls(grpc::CreateChannel(absl::StrCat("127.0.0.1:", tls_port),
                                       grpc::SslCredentials(options)));
  for (const int64_t k : {4096, 131072}) Measure(plain, tls, k);
}

}  // namespace
}  // namespace qgemm

int main() { qgemm::Run(); }
