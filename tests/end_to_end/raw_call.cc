// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/raw_call.h"

#include <grpcpp/generic/generic_stub.h>

#include <vector>

namespace qgemm {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Waits for the one operation in flight.
void Wait(grpc::CompletionQueue* queue) {
  void* tag;
  bool ok;
  queue->Next(&tag, &ok);
}

}  // namespace

RawAnswer CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& method, const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, method, ToBuffer(request), &queue);
  call->StartCall();
  RawAnswer answer;
  grpc::ByteBuffer buffer;
  call->Finish(&buffer, &answer.status, nullptr);
  Wait(&queue);
  if (answer.status.ok()) answer.bytes = ToString(buffer);
  return answer;
}

RawAnswer StreamRaw(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& method, const std::string& request,
                    grpc::ClientContext* context) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext own;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(context == nullptr ? &own : context, method, &queue);
  call->StartCall(nullptr);
  Wait(&queue);
  call->WriteLast(ToBuffer(request), grpc::WriteOptions(), nullptr);
  Wait(&queue);
  RawAnswer answer;
  grpc::ByteBuffer buffer;
  call->Read(&buffer, nullptr);
  Wait(&queue);
  call->Finish(&answer.status, nullptr);
  Wait(&queue);
  if (answer.status.ok()) answer.bytes = ToString(buffer);
  return answer;
}

}  // namespace qgemm
