// SPDX-License-Identifier: Apache-2.0
//
// The generated stub, with the few calls that every suite makes.

#ifndef QGEMM_TESTS_END_TO_END_CLIENT_H_
#define QGEMM_TESTS_END_TO_END_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "qgemm/v1/qgemm.grpc.pb.h"

namespace qgemm {

// A status and, if it is OK, the answer.
template <typename Response>
struct Answer {
  grpc::Status status;
  Response response;

  bool ok() const { return status.ok(); }
};

// Thread-safe.
class Client {
 public:
  // A connection of its own to "host:port" or "unix:path".
  explicit Client(const std::string& address);
  // On a channel that is there.
  explicit Client(std::shared_ptr<grpc::Channel> channel);

  // Sends the messages, as far as the server takes them, and ends the stream.
  Answer<v1::LoadWeightsResponse> Load(
      const std::vector<v1::LoadWeightsRequest>& messages) const;

  Answer<v1::GemmResponse> Gemm(const v1::GemmRequest& request) const;
  Answer<v1::UnloadWeightsResponse> Unload(const std::string& weights) const;
  Answer<v1::GetWeightsResponse> Get(const std::string& weights) const;
  v1::GetServerInfoResponse Info() const;
  std::vector<v1::WeightsInfo> List() const;

  v1::Qgemm::Stub* stub() const { return stub_.get(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Qgemm::Stub> stub_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_CLIENT_H_
