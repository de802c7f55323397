// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/failed_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "qgemm/v1/debug.grpc.pb.h"
#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/stream_client.h"

namespace qgemm {

namespace health = ::grpc::health::v1;
using ::testing::HasSubstr;

grpc::Status InjectFault(const Client& client, v1::Fault fault) {
  grpc::ClientContext context;
  v1::InjectFaultRequest request;
  request.set_fault(fault);
  v1::InjectFaultResponse response;
  return v1::QgemmDebug::NewStub(client.channel())
      ->InjectFault(&context, request, &response);
}

HealthStatus CheckHealth(const Client& client, const std::string& service) {
  grpc::ClientContext context;
  health::HealthCheckRequest request;
  request.set_service(service);
  health::HealthCheckResponse response;
  const grpc::Status status = health::Health::NewStub(client.channel())
                                  ->Check(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

HealthWatch::HealthWatch(const Client& client, const std::string& service)
    : stub_(health::Health::NewStub(client.channel())) {
  health::HealthCheckRequest request;
  request.set_service(service);
  reader_ = stub_->Watch(&context_, request);
}

HealthWatch::~HealthWatch() {
  context_.TryCancel();
  reader_->Finish();
}

HealthStatus HealthWatch::Next() {
  health::HealthCheckResponse response;
  EXPECT_TRUE(reader_->Read(&response));
  return response.status();
}

void ExpectUnavailable(const grpc::Status& status, const std::string& reason) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr(reason));
}

void ExpectNoService(const Client& client, const v1::GemmRequest& gemm,
                     const std::string& reason) {
  ExpectUnavailable(client.Gemm(gemm).status, reason);
  ExpectUnavailable(client.Unload("layer").status, reason);
  ExpectUnavailable(client.Get("layer").status, reason);
  StreamClient stream(client);
  stream.Write(ToMessage(1, gemm));
  ExpectUnavailable(stream.Finish(), reason);
  RandomGenerator random(FreshSeed());
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = 32;
  spec.k = 64;
  ExpectUnavailable(
      client.Load(ToMessages(MakeRandomUpload(spec, &random), "other")).status,
      reason);
  for (const char* const ready : {"", "qgemm.v1.Qgemm", "readiness"}) {
    EXPECT_EQ(CheckHealth(client, ready), kNotServing) << ready;
  }
  EXPECT_EQ(CheckHealth(client, "liveness"), kNotServing);
}

}  // namespace qgemm
