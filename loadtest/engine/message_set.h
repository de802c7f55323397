// SPDX-License-Identifier: Apache-2.0
//
// The requests of a load test as bytes, made once and sent many times.

#ifndef QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_
#define QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "qgemm/gemm.h"

namespace qgemm {

// Not thread-safe while messages are added; afterwards any thread may read.
class MessageSet {
 public:
  MessageSet() = default;
  MessageSet(const MessageSet&) = delete;
  MessageSet& operator=(const MessageSet&) = delete;

  // Keeps a copy of an A; returns its number. Messages with equal A share it.
  int AddOperand(absl::Span<const uint8_t> a);

  // A Gemm request whose A is operand number `operand`; options.a is ignored.
  // Returns the message's number, from 0 on.
  int AddGemm(GemmRequest options, int operand);

  // A debug Echo of operand number `operand`, answered by `answer_bytes`.
  int AddEcho(int operand, int64_t answer_bytes);

  int size() const { return static_cast<int>(messages_.size()); }
  const grpc::ByteBuffer& message(int number) const {
    return messages_[number].bytes;
  }
  // What a message that AddGemm made asks for; A is the set's.
  GemmRequest gemm(int number) const;
  // "/package.Service/Method".
  const std::string& method(int number) const {
    return *messages_[number].method;
  }

 private:
  struct Message {
    const std::string* method;
    grpc::ByteBuffer bytes;
    GemmRequest gemm;  // without A
    int operand = 0;
  };

  const std::string gemm_method_ = "/qgemm.v1.Qgemm/Gemm";
  const std::string echo_method_ = "/qgemm.v1.QgemmDebug/Echo";
  std::vector<grpc::Slice> operands_;
  std::vector<Message> messages_;
};

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_
