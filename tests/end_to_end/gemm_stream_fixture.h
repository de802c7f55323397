// SPDX-License-Identifier: Apache-2.0
//
// The start of GemmStream's tests: a server with one layer.

#ifndef QGEMM_TESTS_END_TO_END_GEMM_STREAM_FIXTURE_H_
#define QGEMM_TESTS_END_TO_END_GEMM_STREAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/end_to_end/stream_client.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {

inline constexpr int64_t kN = 32;
inline constexpr int64_t kK = 64;

// Bounds of the requests that a stream may have outstanding.
inline ServerOptions WithBounds(int64_t max_requests, int64_t max_bytes) {
  ServerOptions options;
  options.stream.max_requests = max_requests;
  options.stream.max_bytes = max_bytes;
  return options;
}

// A server with the layer "layer", Q4_0 [kN, kK].
class GemmStreamTest : public ::testing::Test {
 protected:
  GemmStreamTest() : client_(server_.NewClient()) {
    LoadLayer(client_, kN, kK, &random_);
  }

  v1::GemmRequest Request(int64_t m) {
    return MakeGemm("layer", m, kK, &random_);
  }

  RandomGenerator random_;
  TestServer server_;
  const Client client_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_GEMM_STREAM_FIXTURE_H_
