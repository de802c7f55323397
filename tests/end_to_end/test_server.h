// SPDX-License-Identifier: Apache-2.0
//
// A real server in the test's process, on a free port.

#ifndef QGEMM_TESTS_END_TO_END_TEST_SERVER_H_
#define QGEMM_TESTS_END_TO_END_TEST_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matrix/backend.h"
#include "kernels/matrix/types.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/server.h"
#include "tests/end_to_end/client.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/support/fake_async_backend.h"

namespace qgemm {

// Serves from its making to its end; a server that cannot start ends the
// test's process.
class TestServer {
 public:
  // Listens on 127.0.0.1:0 whatever the options say of that.
  explicit TestServer(ServerOptions options = ServerOptions(),
                      std::unique_ptr<Backend> backend = nullptr);

  Server& server() { return *server_; }
  std::string address() const { return server_->addresses().front(); }
  Client NewClient() const { return Client(address()); }

 private:
  std::unique_ptr<Server> server_;
};

// The same on a FakeAsyncBackend, which the test may hold.
class HeldServer {
 public:
  explicit HeldServer(const ServerOptions& options = ServerOptions());

  FakeAsyncBackend& backend() { return *backend_; }
  TestServer& test_server() { return test_server_; }
  Client NewClient() const { return test_server_.NewClient(); }

 private:
  HeldServer(const ServerOptions& options,
             std::unique_ptr<FakeAsyncBackend> backend);

  FakeAsyncBackend* const backend_;
  TestServer test_server_;
};

// Q4_0 weights of that shape under the name "layer".
RandomUpload LoadLayer(const Client& client, int64_t n, int64_t k,
                       RandomGenerator* random);

// A request for m rows of random fp16 activations, answered in fp16.
v1::GemmRequest MakeGemm(const std::string& weights, int64_t m, int64_t k,
                         RandomGenerator* random);

// The number on the first line of the metrics text that starts with `prefix`;
// 0 without one. `port` is the metrics endpoint's.
double ScrapeMetric(int port, const std::string& prefix);

// The metrics endpoint's answer to GET /metrics, headers included.
std::string ScrapeMetrics(int port);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_TEST_SERVER_H_
