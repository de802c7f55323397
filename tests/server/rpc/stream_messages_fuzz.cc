// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: no messages of a GemmStream, cut and mutated in any way,
// crash their reader or bring the ledger out of step with a plain count of what
// is outstanding. tools/fuzz.sh runs it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "qgemm/v1/qgemm.pb.h"
#include "rpc/payload_message.h"
#include "server/rpc/stream_ledger.h"
#include "server/rpc/translate.h"
#include "tests/rpc/payload_differential.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {
namespace {

constexpr uint32_t kIds = 12;
constexpr int64_t kMaxOperandBytes = 1 << 20;

StreamLimits Limits() {
  StreamLimits limits;
  limits.max_requests = 4;
  limits.max_bytes = 1000;
  limits.max_operand_bytes = kMaxOperandBytes;
  return limits;
}

v1::GemmStreamRequest Message(FuzzInput* input) {
  v1::GemmStreamRequest message;
  message.set_request_id(input->OneIn(16) ? input->Count()
                                          : input->Below(kIds));
  message.set_a(std::string(input->Below(40), 'a'));
  switch (input->Below(8)) {
    case 0:
    case 1:
    case 2:
      message.mutable_open()->mutable_gemm()->set_m(input->Count());
      message.mutable_open()->set_a_bytes(input->Count());
      message.mutable_open()->set_timeout_ns(input->Count());
      message.mutable_open()->set_c_fragment_bytes(input->Count());
      break;
    case 3:
    case 4:
    case 5:
      message.mutable_fragment()->set_offset(input->Count());
      break;
    case 6:
      message.mutable_cancel();
      break;
    default:
      break;
  }
  return message;
}

// The message's bytes, sometimes not quite.
std::string Bytes(FuzzInput* input) {
  std::string bytes = Message(input).SerializeAsString();
  if (input->OneIn(8)) bytes += input->Bytes(input->Below(30));
  if (input->OneIn(8) && !bytes.empty()) {
    bytes[input->Byte() % bytes.size()] = static_cast<char>(input->Byte());
  }
  if (input->OneIn(16)) bytes.resize(input->Byte() % (bytes.size() + 1));
  return bytes;
}

// A ledger beside a count of what is outstanding.
class Stream {
 public:
  // False ends the stream.
  bool Take(const v1::GemmStreamRequest& message, uint64_t a_bytes) {
    const uint64_t id = message.request_id();
    switch (message.part_case()) {
      case v1::GemmStreamRequest::kOpen:
        return Open(id, message.open(), a_bytes);
      case v1::GemmStreamRequest::kFragment:
        return Continue(id, message.fragment().offset(), a_bytes);
      case v1::GemmStreamRequest::kCancel:
        ledger_.EndFragments(id);
        if (outstanding_.count(id) != 0) outstanding_[id].missing_bytes = 0;
        break;
      default:
        return false;
    }
    Forget(id);
    return true;
  }

  void Hold(uint64_t id, int64_t bytes) { ledger_.Hold(id, bytes); }

  // Answers one request and says that the answer has gone out.
  void Answer(uint64_t id) {
    ledger_.Answer(id);
    ledger_.Sent();
    if (outstanding_.count(id) != 0) outstanding_[id].answered = true;
    Forget(id);
  }

  void Check() const {
    int64_t unanswered = 0;
    for (const auto& [id, request] : outstanding_) {
      if (!request.answered) ++unanswered;
      CHECK_EQ(ledger_.IsComplete(id), request.missing_bytes == 0) << id;
    }
    CHECK_EQ(ledger_.unanswered(), unanswered);
  }

  // Ends every request; the ledger must be as new.
  void EndAll() {
    const std::map<uint64_t, Request> left = outstanding_;
    for (const auto& [id, unused] : left) {
      ledger_.EndFragments(id);
      ledger_.Answer(id);
      ledger_.Sent();
    }
    CHECK_EQ(ledger_.unanswered(), 0);
    CHECK(ledger_.HasRoom());
    for (uint64_t id = 0; id < kIds; ++id) {
      const bool begins =
          ledger_.Begin(id, 1, 1).kind == StreamVerdict::Kind::kTaken;
      CHECK(begins) << "request " << id << " is still outstanding";
    }
  }

 private:
  struct Request {
    uint64_t received_bytes = 0;
    uint64_t missing_bytes = 0;
    bool answered = false;
  };

  bool Open(uint64_t id, const v1::GemmStreamOpen& open, uint64_t came) {
    // Its outcome is the request's, not the stream's.
    CheckStreamOpen(open, static_cast<int64_t>(came), kMaxOperandBytes)
        .IgnoreError();
    const uint64_t a_bytes = OperandBytes(open, static_cast<int64_t>(came));
    const StreamVerdict verdict = ledger_.Begin(id, a_bytes, came);
    if (verdict.kind == StreamVerdict::Kind::kTaken) {
      CHECK_EQ(outstanding_.count(id), 0u);
      outstanding_[id] = {came, a_bytes > came ? a_bytes - came : 0, false};
    }
    return verdict.kind != StreamVerdict::Kind::kBroken;
  }

  bool Continue(uint64_t id, uint64_t offset, uint64_t came) {
    if (!ledger_.Continue(id, offset, came).ok()) return false;
    CHECK_EQ(outstanding_.count(id), 1u);
    Request& request = outstanding_[id];
    CHECK_EQ(request.received_bytes, offset);
    CHECK_LE(came, request.missing_bytes);
    request.received_bytes += came;
    request.missing_bytes -= came;
    Forget(id);
    return true;
  }

  void Forget(uint64_t id) {
    const auto found = outstanding_.find(id);
    if (found == outstanding_.end()) return;
    if (found->second.answered && found->second.missing_bytes == 0) {
      outstanding_.erase(found);
    }
  }

  StreamLedger ledger_{Limits()};
  std::map<uint64_t, Request> outstanding_;
};

// Reads one message as it may arrive; false ends the stream.
bool TakeMessage(FuzzInput* input, Stream* stream) {
  const std::string bytes = Bytes(input);
  const std::vector<size_t> lengths(input->Below(4), input->Below(20));
  grpc::ByteBuffer buffer = Sliced(bytes, lengths);
  v1::GemmStreamRequest message;
  ReceivedPayload a;
  if (!ReadPayloadMessage(&buffer, &message, &a).ok()) return false;
  int64_t pieces_bytes = 0;
  for (const absl::string_view piece : a.pieces) pieces_bytes += piece.size();
  CHECK_EQ(pieces_bytes, a.bytes);
  return stream->Take(message, a.bytes);
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qgemm::FuzzInput input(data, size);
  qgemm::Stream stream;
  while (!input.empty()) {
    switch (input.Below(4)) {
      case 0:
        stream.Answer(input.Below(qgemm::kIds));
        break;
      case 1:
        stream.Hold(input.Below(qgemm::kIds), input.Byte() * 8);
        break;
      default:
        if (!qgemm::TakeMessage(&input, &stream)) return 0;
    }
    stream.Check();
  }
  stream.EndAll();
  return 0;
}
