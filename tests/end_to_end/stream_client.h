// SPDX-License-Identifier: Apache-2.0
//
// A GemmStream through the generated stub: requests cut as a test wants them,
// answers put together.

#ifndef QGEMM_TESTS_END_TO_END_STREAM_CLIENT_H_
#define QGEMM_TESTS_END_TO_END_STREAM_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qgemm/v1/qgemm.pb.h"
#include "tests/end_to_end/client.h"

namespace qgemm {

// The messages of a request whose A is cut at `cuts`: ascending, within A.
std::vector<v1::GemmStreamRequest> ToMessages(uint64_t id,
                                              const v1::GemmRequest& request,
                                              const std::vector<size_t>& cuts);
// The one message of a request whose A comes whole.
v1::GemmStreamRequest ToMessage(uint64_t id, const v1::GemmRequest& request);
// The message that cancels a request.
v1::GemmStreamRequest CancelMessage(uint64_t id);

// An answer that has come whole.
struct StreamedAnswer {
  uint64_t id = 0;
  v1::GemmStreamError error;
  v1::Timings timings;
  uint64_t c_bytes = 0;  // as the first message says
  std::string c;
  int messages = 0;

  grpc::StatusCode code() const {
    return static_cast<grpc::StatusCode>(error.code());
  }
};

// One thread may write while another reads.
class StreamClient {
 public:
  explicit StreamClient(const Client& client);
  // Cancels the call unless it was finished.
  ~StreamClient();

  // False once the call has ended.
  bool Write(const v1::GemmStreamRequest& message);
  bool Write(const std::vector<v1::GemmStreamRequest>& messages);
  void WritesDone() { stream_->WritesDone(); }

  // The next answer that is whole; nullopt once the call has ended. Fragments
  // that do not follow one another fail the process.
  std::optional<StreamedAnswer> Read();
  // Read, of which there must be one.
  StreamedAnswer ReadOne();

  void Cancel() { context_.TryCancel(); }
  // Reads what is left, and drops it.
  grpc::Status Finish();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::GemmStreamRequest, v1::GemmStreamResponse>>
      stream_;
  std::map<uint64_t, StreamedAnswer> partial_;
  bool finished_ = false;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_STREAM_CLIENT_H_
