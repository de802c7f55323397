// SPDX-License-Identifier: Apache-2.0
//
// Calls with bytes in place of messages: for services whose messages are not
// compiled here, and for bytes that are no message.

#ifndef QGEMM_TESTS_END_TO_END_RAW_CALL_H_
#define QGEMM_TESTS_END_TO_END_RAW_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace qgemm {

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};

// A unary call of "/package.Service/Method".
RawAnswer CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& method, const std::string& request);

// A bidirectional call: one request, then the first answer. Without a context
// it has one of its own.
RawAnswer StreamRaw(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& method, const std::string& request,
                    grpc::ClientContext* context = nullptr);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_RAW_CALL_H_
