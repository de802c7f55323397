// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/client.h"

#include <utility>

#include "base/check.h"

namespace qgemm {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Not one shared connection for all clients of the process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

Client::Client(const std::string& address) : Client(Connect(address)) {}

Client::Client(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), stub_(v1::Qgemm::NewStub(channel_)) {}

Answer<v1::LoadWeightsResponse> Client::Load(
    const std::vector<v1::LoadWeightsRequest>& messages) const {
  grpc::ClientContext context;
  Answer<v1::LoadWeightsResponse> answer;
  const auto writer = stub_->LoadWeights(&context, &answer.response);
  for (const v1::LoadWeightsRequest& message : messages) {
    if (!writer->Write(message)) break;  // the server has answered
  }
  writer->WritesDone();
  answer.status = writer->Finish();
  return answer;
}

Answer<v1::GemmResponse> Client::Gemm(const v1::GemmRequest& request) const {
  grpc::ClientContext context;
  Answer<v1::GemmResponse> answer;
  answer.status = stub_->Gemm(&context, request, &answer.response);
  return answer;
}

Answer<v1::UnloadWeightsResponse> Client::Unload(
    const std::string& weights) const {
  grpc::ClientContext context;
  v1::UnloadWeightsRequest request;
  request.set_weights(weights);
  Answer<v1::UnloadWeightsResponse> answer;
  answer.status = stub_->UnloadWeights(&context, request, &answer.response);
  return answer;
}

Answer<v1::GetWeightsResponse> Client::Get(const std::string& weights) const {
  grpc::ClientContext context;
  v1::GetWeightsRequest request;
  request.set_weights(weights);
  Answer<v1::GetWeightsResponse> answer;
  answer.status = stub_->GetWeights(&context, request, &answer.response);
  return answer;
}

v1::GetServerInfoResponse Client::Info() const {
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  const grpc::Status status =
      stub_->GetServerInfo(&context, v1::GetServerInfoRequest(), &response);
  CHECK(status.ok()) << status.error_message();
  return response;
}

std::vector<v1::WeightsInfo> Client::List() const {
  grpc::ClientContext context;
  v1::ListWeightsResponse response;
  const grpc::Status status =
      stub_->ListWeights(&context, v1::ListWeightsRequest(), &response);
  CHECK(status.ok()) << status.error_message();
  return {response.weights().begin(), response.weights().end()};
}

}  // namespace qgemm
