// SPDX-License-Identifier: Apache-2.0
//
// The load test's request: one Gemm through the client library.

#ifndef QGEMM_CLIENT_LOADTEST_CLIENT_TARGET_H_
#define QGEMM_CLIENT_LOADTEST_CLIENT_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/loadtest/closed_loop_runner.h"
#include "kernels/matrix/types.h"

namespace qgemm {

// Thread-safe. `client` must outlive it, and `inputs` too.
class ClientTarget final : public LoadTarget {
 public:
  struct Options {
    std::string weights;
    int64_t m = 1;
    MatmulSignature signature;
    absl::Duration timeout;  // of one request
    // A of each input, [m, k] of the signature's a_type.
    absl::Span<const std::vector<uint8_t>> inputs;
  };
  ClientTarget(Client* client, const Options& options)
      : client_(client), options_(options) {}

  absl::StatusOr<LoadAnswer> Call(int64_t input) override;

 private:
  Client* const client_;
  const Options options_;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LOADTEST_CLIENT_TARGET_H_
