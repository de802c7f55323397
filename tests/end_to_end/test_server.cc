// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "tests/end_to_end/wire_header.h"
#include "tests/support/random_matrix.h"

namespace qgemm {

TestServer::TestServer(ServerOptions options,
                       std::unique_ptr<Backend> backend) {
  options.listen = {"127.0.0.1:0"};
  auto server = backend == nullptr
                    ? Server::Create(options)
                    : Server::Create(options, std::move(backend));
  CHECK_OK(server.status());
  server_ = *std::move(server);
}

HeldServer::HeldServer(const ServerOptions& options)
    : HeldServer(options, std::make_unique<FakeAsyncBackend>()) {}

HeldServer::HeldServer(const ServerOptions& options,
                       std::unique_ptr<FakeAsyncBackend> backend)
    : backend_(backend.get()), test_server_(options, std::move(backend)) {}

RandomUpload LoadLayer(const Client& client, int64_t n, int64_t k,
                       RandomGenerator* random) {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = n;
  spec.k = k;
  RandomUpload upload = MakeRandomUpload(spec, random);
  const auto answer = client.Load(ToMessages(upload, "layer"));
  CHECK(answer.ok()) << answer.status.error_message();
  return upload;
}

v1::GemmRequest MakeGemm(const std::string& weights, int64_t m, int64_t k,
                         RandomGenerator* random) {
  const std::vector<uint8_t> a =
      RandomMatrix(FloatType::kFloat16, m, k, random);
  v1::GemmRequest request;
  request.set_weights(weights);
  request.set_m(m);
  request.set_a_type(v1::FLOAT_TYPE_FP16);
  request.set_a(a.data(), a.size());
  return request;
}

std::string ScrapeMetrics(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK_GE(fd, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  CHECK_EQ(send(fd, request.data(), request.size(), 0),
           static_cast<ssize_t>(request.size()));
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
    text.append(buffer, size);
  }
  close(fd);
  return text;
}

double ScrapeMetric(int port, const std::string& prefix) {
  const std::string text = ScrapeMetrics(port);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, prefix)) continue;
    return std::atof(std::string(line.substr(line.rfind(' '))).c_str());
  }
  return 0;
}

}  // namespace qgemm
