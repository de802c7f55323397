// SPDX-License-Identifier: Apache-2.0
//
// A server that ends every call with OK and no message: the look of a call
// whose answer gRPC dropped.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "qgemm/client.h"

namespace qgemm {
namespace {

class SilentCall final : public grpc::ServerGenericBidiReactor {
 public:
  SilentCall() { Finish(grpc::Status::OK); }
  void OnDone() override { delete this; }
};

class SilentService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new SilentCall;
  }
};

TEST(MissingMessage, IsAnErrorThatSaysSo) {
  SilentService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto client = Client::Connect(absl::StrCat("127.0.0.1:", port));
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<uint8_t> a(16);
  GemmRequest request;
  request.weights = "layer";
  request.m = 1;
  request.a = a;
  EXPECT_EQ((*client)->Gemm(request).status(),
            absl::InternalError("the server's answer has no message"));
  server->Shutdown();
}

}  // namespace
}  // namespace qgemm
