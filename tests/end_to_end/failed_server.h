// SPDX-License-Identifier: Apache-2.0
//
// A server that fails, as its clients see it: faults, health, and calls that
// all end with UNAVAILABLE.

#ifndef QGEMM_TESTS_END_TO_END_FAILED_SERVER_H_
#define QGEMM_TESTS_END_TO_END_FAILED_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "qgemm/v1/debug.pb.h"
#include "tests/end_to_end/client.h"

namespace qgemm {

using HealthStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;
inline constexpr HealthStatus kServing =
    grpc::health::v1::HealthCheckResponse::SERVING;
inline constexpr HealthStatus kNotServing =
    grpc::health::v1::HealthCheckResponse::NOT_SERVING;

grpc::Status InjectFault(const Client& client, v1::Fault fault);

HealthStatus CheckHealth(const Client& client, const std::string& service);

// Follows a service's health.
class HealthWatch {
 public:
  HealthWatch(const Client& client, const std::string& service);
  ~HealthWatch();

  // Waits for the next word.
  HealthStatus Next();

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>>
      reader_;
};

void ExpectUnavailable(const grpc::Status& status, const std::string& reason);

// Every kind of call, on a server that has failed: `gemm`, which is of "layer",
// and others.
void ExpectNoService(const Client& client, const v1::GemmRequest& gemm,
                     const std::string& reason);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_FAILED_SERVER_H_
