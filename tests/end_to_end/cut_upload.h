// SPDX-License-Identifier: Apache-2.0
//
// Uploads that are cut off, and what the server then has of them.

#ifndef QGEMM_TESTS_END_TO_END_CUT_UPLOAD_H_
#define QGEMM_TESTS_END_TO_END_CUT_UPLOAD_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/end_to_end/random_upload.h"
#include "tests/end_to_end/test_server.h"

namespace qgemm {

using Messages = std::vector<v1::LoadWeightsRequest>;

// The messages of an upload whose header has its id.
Messages WithId(const RandomUpload& upload, const std::string& name);

// The messages that continue behind the first `bytes`.
Messages Rest(const RandomUpload& upload, const std::string& name,
              int64_t bytes);

int64_t ChunkBytes(const Messages& messages);

// The server's answers, which must be OK; ids are in hex.
v1::QueryUploadResponse Query(const Client& client, const std::string& id);
std::vector<std::string> FindMissing(const Client& client,
                                     const std::vector<std::string>& ids);

// A call that has sent some of an upload, and is open.
class OpenUpload {
 public:
  OpenUpload(const Client& client, const Messages& messages, size_t count) {
    writer_ = client.stub()->LoadWeights(&context_, &response_);
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(writer_->Write(messages[i]));
  }

  void SendFrom(const Messages& messages, size_t begin) {
    for (size_t i = begin; i < messages.size(); ++i) {
      if (!writer_->Write(messages[i])) return;
    }
    writer_->WritesDone();
  }
  grpc::Status Finish() { return writer_->Finish(); }
  grpc::Status Cancel() {
    context_.TryCancel();
    return writer_->Finish();
  }
  const v1::LoadWeightsResponse& response() const { return response_; }

 private:
  grpc::ClientContext context_;
  v1::LoadWeightsResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::LoadWeightsRequest>> writer_;
};

// Waits until the server has that much of the upload; it may have more.
int64_t AwaitReceived(const Client& client, const std::string& id,
                      int64_t bytes);

// Uploads what needs the room of an upload that its client has cancelled: the
// server, which hears of that later, refuses it until then.
grpc::Status LoadAfterCancel(const Client& client, const Messages& messages);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_CUT_UPLOAD_H_
