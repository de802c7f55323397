// SPDX-License-Identifier: Apache-2.0
//
// The least that a gRPC client of qgemm can be: a stub, one request at a time,
// two readings of the clock. What the load test's own overhead is measured
// against (bench/self_overhead.sh).
//
// Usage: minimal_client SERVER WEIGHTS K SECONDS

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/histogram.h"
#include "qgemm/process_settings.h"
#include "qgemm/v1/qgemm.grpc.pb.h"

namespace qgemm {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kWarmup = std::chrono::milliseconds(500);

int64_t NanosecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             SteadyClock::now() - start)
      .count();
}

int Run(char** argv) {
  const auto stub = v1::Qgemm::NewStub(
      grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  v1::GemmRequest request;
  request.set_weights(argv[2]);
  request.set_m(1);
  request.set_a_type(v1::FLOAT_TYPE_FP16);
  request.set_a(std::string(2 * std::atoi(argv[3]), '\x31'));
  const auto start = SteadyClock::now();
  const auto end = start + kWarmup + std::chrono::seconds(std::atoi(argv[4]));
  Histogram latency_ns;
  for (auto sent = start; sent < end; sent = SteadyClock::now()) {
    grpc::ClientContext context;
    v1::GemmResponse response;
    const grpc::Status status = stub->Gemm(&context, request, &response);
    if (!status.ok()) {
      std::fprintf(stderr, "minimal_client: %s\n",
                   status.error_message().c_str());
      return EXIT_FAILURE;
    }
    if (sent >= start + kWarmup) latency_ns.Record(NanosecondsSince(sent));
  }
  std::printf("%.1f\n", static_cast<double>(latency_ns.Percentile(50)) / 1000);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: minimal_client SERVER WEIGHTS K SECONDS\n");
    return 2;
  }
  qgemm::SkipLockOrderChecks();
  return qgemm::Run(argv);
}
