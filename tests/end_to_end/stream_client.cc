// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/stream_client.h"

#include <utility>

#include "base/check.h"

namespace qgemm {

std::vector<v1::GemmStreamRequest> ToMessages(uint64_t id,
                                              const v1::GemmRequest& request,
                                              const std::vector<size_t>& cuts) {
  std::vector<v1::GemmStreamRequest> messages;
  size_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t end = i < cuts.size() ? cuts[i] : request.a().size();
    v1::GemmStreamRequest message;
    message.set_request_id(id);
    if (i > 0) message.mutable_fragment()->set_offset(begin);
    message.set_a(request.a().substr(begin, end - begin));
    messages.push_back(std::move(message));
    begin = end;
  }
  v1::GemmStreamOpen* const open = messages.front().mutable_open();
  *open->mutable_gemm() = request;
  open->mutable_gemm()->clear_a();
  if (!cuts.empty()) open->set_a_bytes(request.a().size());
  return messages;
}

v1::GemmStreamRequest ToMessage(uint64_t id, const v1::GemmRequest& request) {
  return ToMessages(id, request, {}).front();
}

v1::GemmStreamRequest CancelMessage(uint64_t id) {
  v1::GemmStreamRequest message;
  message.set_request_id(id);
  message.mutable_cancel();
  return message;
}

StreamClient::StreamClient(const Client& client)
    : stream_(client.stub()->GemmStream(&context_)) {}

StreamClient::~StreamClient() {
  if (finished_) return;
  Cancel();
  Finish();
}

bool StreamClient::Write(const v1::GemmStreamRequest& message) {
  return stream_->Write(message);
}

bool StreamClient::Write(const std::vector<v1::GemmStreamRequest>& messages) {
  for (const v1::GemmStreamRequest& message : messages) {
    if (!Write(message)) return false;
  }
  return true;
}

std::optional<StreamedAnswer> StreamClient::Read() {
  v1::GemmStreamResponse message;
  while (stream_->Read(&message)) {
    StreamedAnswer& answer = partial_[message.request_id()];
    CHECK_EQ(message.offset(), answer.c.size());
    if (answer.messages++ == 0) {
      answer.id = message.request_id();
      answer.error = message.error();
      answer.timings = message.timings();
      answer.c_bytes = message.c_bytes();
    }
    answer.c += message.c();
    if (answer.c.size() < answer.c_bytes) continue;
    StreamedAnswer whole = std::move(answer);
    partial_.erase(whole.id);
    return whole;
  }
  return std::nullopt;
}

StreamedAnswer StreamClient::ReadOne() {
  std::optional<StreamedAnswer> answer = Read();
  CHECK(answer.has_value()) << "the call has ended";
  return *std::move(answer);
}

grpc::Status StreamClient::Finish() {
  v1::GemmStreamResponse message;
  while (stream_->Read(&message)) {
  }
  finished_ = true;
  return stream_->Finish();
}

}  // namespace qgemm
