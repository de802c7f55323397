// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/cut_upload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace qgemm {

Messages WithId(const RandomUpload& upload, const std::string& name) {
  Messages messages = ToMessages(upload, name);
  messages[0].mutable_header()->set_sha256(IdOf(upload));
  return messages;
}

Messages Rest(const RandomUpload& upload, const std::string& name,
              int64_t bytes) {
  Messages rest;
  int64_t position = 0;
  for (v1::LoadWeightsRequest& message : WithId(upload, name)) {
    if (message.has_header()) {
      message.mutable_header()->set_resume_bytes(bytes);
      rest.push_back(std::move(message));
      continue;
    }
    v1::WeightsChunk* const chunk = message.mutable_chunk();
    const auto size = static_cast<int64_t>(chunk->bytes().size());
    const int64_t known = std::clamp<int64_t>(bytes - position, 0, size);
    position += size;
    if (known == size) continue;
    chunk->set_offset(chunk->offset() + known);
    SetChunkBytes(chunk->bytes().substr(known), chunk);
    rest.push_back(std::move(message));
  }
  return rest;
}

int64_t ChunkBytes(const Messages& messages) {
  int64_t bytes = 0;
  for (const auto& message : messages) bytes += message.chunk().bytes().size();
  return bytes;
}

v1::QueryUploadResponse Query(const Client& client, const std::string& id) {
  grpc::ClientContext context;
  v1::QueryUploadRequest request;
  request.set_id(id);
  v1::QueryUploadResponse response;
  const auto status = client.stub()->QueryUpload(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

std::vector<std::string> FindMissing(const Client& client,
                                     const std::vector<std::string>& ids) {
  grpc::ClientContext context;
  v1::FindMissingWeightsRequest request;
  for (const std::string& id : ids) request.add_ids(id);
  v1::FindMissingWeightsResponse response;
  const auto status =
      client.stub()->FindMissingWeights(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return {response.missing().begin(), response.missing().end()};
}

int64_t AwaitReceived(const Client& client, const std::string& id,
                      int64_t bytes) {
  while (true) {
    const int64_t received = Query(client, id).committed_bytes();
    if (received >= bytes) return received;
    std::this_thread::yield();
  }
}

grpc::Status LoadAfterCancel(const Client& client, const Messages& messages) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  grpc::Status status = client.Load(messages).status;
  while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
    status = client.Load(messages).status;
  }
  return status;
}

}  // namespace qgemm
