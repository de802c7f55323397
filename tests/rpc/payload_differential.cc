// SPDX-License-Identifier: Apache-2.0

#include "tests/rpc/payload_differential.h"

#include <grpcpp/support/slice.h>

#include <algorithm>

#include "qgemm/v1/qgemm.pb.h"
#include "rpc/payload_message.h"

namespace qgemm {

grpc::ByteBuffer Sliced(absl::string_view bytes,
                        const std::vector<size_t>& lengths) {
  std::vector<grpc::Slice> slices;
  for (size_t length : lengths) {
    length = std::min(length, bytes.size());
    slices.emplace_back(bytes.data(), length);
    bytes.remove_prefix(length);
  }
  slices.emplace_back(bytes.data(), bytes.size());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string DifferenceOfParsers(absl::string_view bytes,
                                const std::vector<size_t>& lengths) {
  v1::GemmRequest expected;
  const bool legal =
      expected.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  grpc::ByteBuffer buffer = Sliced(bytes, lengths);
  v1::GemmRequest header;
  ReceivedPayload payload;
  const bool read = ReadPayloadMessage(&buffer, &header, &payload).ok();
  if (legal != read) {
    return legal ? "refused what is legal" : "took what is not legal";
  }
  if (!legal) return "";
  std::string a(payload.bytes, '\0');
  CopyPayload(payload, reinterpret_cast<uint8_t*>(a.data()));
  if (a != expected.a()) return "another operand";
  expected.clear_a();
  header.clear_a();  // there if the message was an unusual one
  if (header.SerializeAsString() != expected.SerializeAsString()) {
    return "another header";
  }
  return "";
}

}  // namespace qgemm
