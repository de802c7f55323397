// SPDX-License-Identifier: Apache-2.0
//
// Memory of a server of its own after a flood of large requests.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"

namespace qgemm {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

// Large requests at once, each on a connection of its own, that the server
// refuses once it has received them.
void Flood(const std::string& address) {
  constexpr int kClients = 8;
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&address] {
      const Client client(address);
      v1::GemmRequest request;
      request.set_weights("unknown");
      request.set_m(1);
      request.set_a(std::string(48 * kMib, 'x'));
      EXPECT_FALSE(client.Gemm(request).ok());
    });
  }
  for (std::thread& client : clients) client.join();
}

// glibc alone gives back what lies at the end of its heaps.
TEST(MemoryReturnTest, TheHeapGoesBackAfterAFlood) {
  ChildServer server({"--listen=127.0.0.1:0", "--threads=1"});
  const std::string address = server.WaitForAddress();
  const int64_t before_bytes = server.ResidentBytes();

  Flood(address);
  server.WaitForOutput("] memory_trimmed ");

  EXPECT_LT(server.ResidentBytes(), before_bytes + 100 * kMib);
}

}  // namespace
}  // namespace qgemm
