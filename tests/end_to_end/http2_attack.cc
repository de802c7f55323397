// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/http2_attack.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {
namespace {

enum FrameType : uint8_t { kData, kHeaders, kSettings = 4, kContinuation = 9 };
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

// Indices of paths; the other methods' messages are empty or begin with a name.
enum Method : uint32_t { kGemm, kLoadWeights, kGemmStream, kEcho };
constexpr const char* kPaths[] = {
    "/qgemm.v1.Qgemm/Gemm",
    "/qgemm.v1.Qgemm/LoadWeights",
    "/qgemm.v1.Qgemm/GemmStream",
    "/qgemm.v1.QgemmDebug/Echo",
    "/qgemm.v1.Qgemm/UnloadWeights",
    "/qgemm.v1.Qgemm/ListWeights",
    "/qgemm.v1.Qgemm/GetWeights",
    "/qgemm.v1.Qgemm/GetServerInfo",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
constexpr std::pair<const char*, const char*> kFields[] = {
    {"user-agent", "fuzz"},    {"grpc-timeout", "9S"}, {"grpc-timeout", "1n"},
    {"grpc-encoding", "gzip"}, {"x-bin", "AAA="},      {"cookie", "a=b"}};

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes));
  return text;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream,
                  absl::string_view payload) {
  return absl::StrCat(BigEndian(payload.size(), 3), BigEndian(type, 1),
                      BigEndian(flags, 1), BigEndian(stream, 4), payload);
}

// Changes, cuts or lengthens the bytes; most inputs leave them as they are.
std::string Spoiled(std::string bytes, FuzzInput* input) {
  const uint32_t how = input->Below(16);
  if (how < 13) return bytes;
  const size_t at = input->Byte() % (bytes.size() + 1);
  if (how == 13) bytes.resize(at);
  if (how == 14) bytes.insert(at, input->Bytes(1 + input->Below(16)));
  if (how == 15 && at < bytes.size()) bytes[at] = input->Byte();
  return bytes;
}

// A block of literal fields.
std::string HeaderBlock(uint32_t method, FuzzInput* input) {
  // Without indexing, into the dynamic table, never indexed.
  constexpr char kKinds[] = {0x00, 0x40, 0x10};
  const char kind = input->Element(kKinds);
  std::string block;
  const auto add = [&](absl::string_view name, absl::string_view value) {
    absl::StrAppend(&block, absl::string_view(&kind, 1),
                    BigEndian(name.size(), 1), name, BigEndian(value.size(), 1),
                    value);
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", kPaths[method]);
  add(":authority", "localhost");
  add("content-type", "application/grpc");
  add("te", "trailers");
  const auto field = input->Element(kFields);
  add(field.first, field.second);
  return Spoiled(std::move(block), input);
}

v1::GemmRequest GemmMessage(FuzzInput* input) {
  v1::GemmRequest gemm;
  gemm.set_weights(kAttackedLayer);
  gemm.set_m(input->OneIn(8) ? input->Count() : 1 + input->Below(3));
  gemm.set_a_type(static_cast<v1::FloatType>(2 - input->Below(2)));
  gemm.set_c_type(static_cast<v1::FloatType>(input->Below(4)));
  gemm.set_mode(static_cast<v1::ComputeMode>(input->Below(4)));
  gemm.set_a(std::string(gemm.m() % 4 * kAttackedLayerK * 2, input->Byte()));
  return gemm;
}

std::string UploadMessage(FuzzInput* input) {
  v1::LoadWeightsRequest message;
  if (input->OneIn(2)) {
    message.mutable_chunk()->set_section(v1::SECTION_CODES);
    message.mutable_chunk()->set_bytes(std::string(18, input->Byte()));
  } else {
    v1::WeightsHeader* const header = message.mutable_header();
    header->set_name(absl::StrCat("fuzz", input->Below(4)));
    header->set_n(input->OneIn(8) ? input->Count() : 1);
    header->set_k(32);
    header->mutable_q4_0();
  }
  return message.SerializeAsString();
}

std::string StreamMessage(FuzzInput* input) {
  v1::GemmStreamRequest message;
  message.set_request_id(input->Below(4));
  switch (input->Below(4)) {
    case 0:
    case 1: {
      v1::GemmRequest* const gemm = message.mutable_open()->mutable_gemm();
      *gemm = GemmMessage(input);
      message.set_a(std::exchange(*gemm->mutable_a(), ""));
      if (input->OneIn(2)) {
        message.mutable_open()->set_a_bytes(gemm->m() * kAttackedLayerK * 2);
        message.mutable_a()->resize(message.a().size() / 2);
      }
      break;
    }
    case 2:
      message.mutable_fragment()->set_offset(input->Byte());
      message.set_a(std::string(input->Byte(), 'a'));
      break;
    default:
      message.mutable_cancel();
  }
  return message.SerializeAsString();
}

// gRPC's frame of a message that the method takes.
std::string Message(uint32_t method, FuzzInput* input) {
  std::string message;
  if (method > kEcho && !input->OneIn(4)) message = "\n\5fuzz0";
  if (method > kEcho && input->OneIn(8)) message = "\n\5layer";
  if (method == kGemm) message = GemmMessage(input).SerializeAsString();
  if (method == kLoadWeights) message = UploadMessage(input);
  if (method == kGemmStream) message = StreamMessage(input);
  if (method == kEcho) message = "\x08\x40\x7a\x01@";  // answer_bytes, a
  message = Spoiled(std::move(message), input);
  return Spoiled(BigEndian(message.size(), 5) + message, input);
}

}  // namespace

std::string Http2Attack::Start() {
  std::string settings;
  if (input_->OneIn(4)) {
    settings = BigEndian(input_->Below(8), 2) + BigEndian(input_->Count(), 4);
  }
  return Spoiled("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", input_) +
         Frame(kSettings, 0, 0, settings);
}

std::string Http2Attack::Next() {
  switch (input_->Below(8)) {
    case 0:
      return Frame(input_->Below(11), input_->Byte(),
                   input_->OneIn(2) ? stream_ - 2 * input_->Below(4) : 0,
                   input_->Bytes(input_->Below(40)));
    case 1:
      return input_->Bytes(1 + input_->Below(64));
    case 2:
    case 3:
      return MoreOfCall(input_->Below(std::size(kPaths)));
    default:
      return Call();
  }
}

std::string Http2Attack::Call() {
  stream_ += 2;
  const uint32_t method = input_->Below(std::size(kPaths));
  std::string block = HeaderBlock(method, input_);
  std::string frames;
  if (input_->OneIn(8)) {
    const size_t cut = input_->Byte() % (block.size() + 1);
    frames = Frame(kHeaders, 0, stream_, block.substr(0, cut)) +
             Frame(kContinuation, kEndHeaders, stream_, block.substr(cut));
  } else {
    frames = Frame(kHeaders, kEndHeaders, stream_, block);
  }
  return Spoiled(std::move(frames), input_) + MoreOfCall(method);
}

std::string Http2Attack::MoreOfCall(uint32_t method) {
  std::string messages;
  for (uint32_t left = 1 + input_->Below(3); left > 0; --left) {
    messages += Message(method, input_);
  }
  const uint8_t flags = input_->OneIn(4) ? 0 : kEndStream;
  const size_t cut = input_->Byte() % (messages.size() + 1);
  return Spoiled(Frame(kData, 0, stream_, messages.substr(0, cut)) +
                     Frame(kData, flags, stream_, messages.substr(cut)),
                 input_);
}

}  // namespace qgemm
