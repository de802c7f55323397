// SPDX-License-Identifier: Apache-2.0
//
// The end of a server of its own that once had no memory for a thread.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>

#include "tests/end_to_end/child_server.h"
#include "tests/end_to_end/client.h"

namespace qgemm {
namespace {

// Enough for a call, too little for a thread's stack.
constexpr int64_t kSpareBytes = int64_t{1} << 20;

// Returns the end of an upload that sends nothing and has this much time.
grpc::Status IdleUpload(const Client& client,
                        std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  v1::LoadWeightsResponse response;
  return client.stub()->LoadWeights(&context, &response)->Finish();
}

// gRPC starts a thread at the first deadline that passes. Its shutdown waits
// for that thread, even if the system did not start it.
TEST(MemoryShortageTest, AThreadThatCouldNotStartDoesNotKeepTheServer) {
  ChildServer server({"--listen=127.0.0.1:0", "--threads=1"});
  const Client client(server.WaitForAddress());
  client.Info();

  server.LimitFurtherMemory(kSpareBytes);
  // The server has counted the first one's time to its end, too, when the
  // second one's has passed here.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(IdleUpload(client, std::chrono::milliseconds(200)).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  server.LiftMemoryLimit();

  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.output();
}

}  // namespace
}  // namespace qgemm
