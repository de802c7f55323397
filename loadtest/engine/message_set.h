// SPDX-License-Identifier: Apache-2.0
//
// Requests of a load test as bytes, made once and sent many times.

#ifndef QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_
#define QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm::loadtest {

// An A [m, k], or the inputs of a program one behind the other, kept for as
// long as messages need it.
using Operand = std::shared_ptr<const std::vector<uint8_t>>;

// Messages are numbered from 0 on, in the order in which they were added.
// Not thread-safe while messages are added; afterwards any thread may read.
class MessageSet {
 public:
  MessageSet() = default;
  MessageSet(const MessageSet&) = delete;
  MessageSet& operator=(const MessageSet&) = delete;

  // A Gemm request. `a`, which messages may share, holds request.a; if that is
  // empty, all of `a` is the request's.
  void AddGemm(GemmRequest request, const Operand& a);

  // A Run of a program, whose inputs `operand` holds.
  void AddRun(const RunRequest& request, const Operand& operand);

  // A debug Echo of `a`, answered by `answer_bytes`.
  void AddEcho(const Operand& a, int64_t answer_bytes);

  int size() const { return static_cast<int>(messages_.size()); }
  const grpc::ByteBuffer& message(int number) const {
    return messages_[number].bytes;
  }
  // The request of a message that AddRun made; the set owns its inputs.
  bool is_run(int number) const {
    return messages_[number].method == &run_method_;
  }
  const RunRequest& run(int number) const { return messages_[number].run; }
  // The request of a message that AddGemm made; the set owns A.
  const GemmRequest& gemm(int number) const { return messages_[number].gemm; }
  // "/package.Service/Method".
  const std::string& method(int number) const {
    return *messages_[number].method;
  }

 private:
  struct Message {
    const std::string* method;
    grpc::ByteBuffer bytes;  // borrows A, and keeps it alive
    GemmRequest gemm;
    RunRequest run;
  };

  const std::string gemm_method_ = "/qgemm.v1.Qgemm/Gemm";
  const std::string run_method_ = "/qgemm.v1.Qgemm/Run";
  const std::string echo_method_ = "/qgemm.v1.QgemmDebug/Echo";
  std::vector<Message> messages_;
};

}  // namespace qgemm::loadtest

#endif  // QGEMM_LOADTEST_ENGINE_MESSAGE_SET_H_
