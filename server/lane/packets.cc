// SPDX-License-Identifier: Apache-2.0

#include "server/lane/packets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lane/segment.h"

namespace qgemm {
namespace {

constexpr uint64_t kMostOperandBytes = uint64_t{1} << 40;

absl::Status Wrong(absl::string_view field, uint64_t value,
                   absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = ", value, "; it must be ", expected));
}

// The fixed part of a packet that is as long as that or longer.
template <typename Message>
absl::StatusOr<Message> ReadFixed(absl::string_view packet) {
  if (packet.size() < sizeof(Message)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the packet has ", packet.size(), " bytes, of at least ",
                     sizeof(Message)));
  }
  Message message;
  std::memcpy(&message, packet.data(), sizeof(message));
  return message;
}

// OK if the packet ends with `rest` bytes after `fixed`.
absl::Status CheckSize(absl::string_view packet, size_t fixed, uint64_t rest) {
  if (packet.size() - fixed == rest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the packet has ", packet.size(),
                   " bytes and by its fields ", fixed + rest));
}

absl::Status CheckLength(absl::string_view field, uint32_t bytes,
                         uint32_t limit) {
  if (bytes <= limit) return absl::OkStatus();
  return Wrong(field, bytes, absl::StrCat("at most ", limit));
}

uint32_t RoundSlots(uint32_t wanted) {
  if (wanted == 0) return kDefaultSlots;
  uint32_t slots = lane::kMinSlots;
  while (slots < wanted) slots *= 2;
  return slots;
}

absl::StatusOr<ClientPacket> ParseHello(absl::string_view packet) {
  ASSIGN_OR_RETURN(const lane::Hello hello, ReadFixed<lane::Hello>(packet));
  if (hello.operand_bytes == 0 || hello.operand_bytes > kMostOperandBytes) {
    return Wrong("operand_bytes", hello.operand_bytes,
                 absl::StrCat("1 to ", kMostOperandBytes));
  }
  if (hello.slots > lane::kMaxSlots) {
    return Wrong("slots", hello.slots,
                 absl::StrCat("at most ", lane::kMaxSlots));
  }
  RETURN_IF_ERROR(
      CheckLength("token_bytes", hello.token_bytes, lane::kMaxTokenBytes));
  RETURN_IF_ERROR(CheckSize(packet, sizeof(hello), hello.token_bytes));
  return HelloPacket{
      hello.header.sequence, static_cast<int64_t>(hello.operand_bytes),
      RoundSlots(hello.slots), std::string(packet.substr(sizeof(hello)))};
}

absl::StatusOr<ClientPacket> ParseOpen(absl::string_view packet) {
  ASSIGN_OR_RETURN(const lane::Open open, ReadFixed<lane::Open>(packet));
  if (open.kind != lane::HandleKind::kWeights &&
      open.kind != lane::HandleKind::kProgram) {
    return Wrong("kind", static_cast<uint32_t>(open.kind),
                 "1 (weights) or 2 (a program)");
  }
  RETURN_IF_ERROR(
      CheckLength("name_bytes", open.name_bytes, lane::kMaxNameBytes));
  RETURN_IF_ERROR(CheckLength("client_id_bytes", open.client_id_bytes,
                              lane::kMaxNameBytes));
  if (open.reserved != 0) return Wrong("reserved", open.reserved, "0");
  RETURN_IF_ERROR(CheckSize(packet, sizeof(open),
                            uint64_t{open.name_bytes} + open.client_id_bytes));
  const absl::string_view text = packet.substr(sizeof(open));
  return OpenPacket{open.header.sequence, open.kind,
                    std::string(text.substr(0, open.name_bytes)),
                    std::string(text.substr(open.name_bytes))};
}

absl::StatusOr<ClientPacket> ParseClose(absl::string_view packet) {
  ASSIGN_OR_RETURN(const lane::Close close, ReadFixed<lane::Close>(packet));
  if (close.reserved != 0) return Wrong("reserved", close.reserved, "0");
  RETURN_IF_ERROR(CheckSize(packet, sizeof(close), 0));
  return ClosePacket{close.header.sequence, close.handle};
}

absl::StatusOr<ClientPacket> ParseAttach(absl::string_view packet) {
  ASSIGN_OR_RETURN(const lane::Attach attach, ReadFixed<lane::Attach>(packet));
  if (attach.bytes == 0 || attach.bytes > kMostOperandBytes) {
    return Wrong("bytes", attach.bytes,
                 absl::StrCat("1 to ", kMostOperandBytes));
  }
  RETURN_IF_ERROR(CheckSize(packet, sizeof(attach), 0));
  AttachPacket parsed;
  parsed.sequence = attach.header.sequence;
  parsed.bytes = static_cast<int64_t>(attach.bytes);
  std::memcpy(parsed.device_uuid.data(), attach.device_uuid,
              sizeof(attach.device_uuid));
  return parsed;
}

}  // namespace

absl::StatusOr<ClientPacket> ParsePacket(absl::string_view packet) {
  ASSIGN_OR_RETURN(const lane::MessageHeader header,
                   ReadFixed<lane::MessageHeader>(packet));
  if (header.magic != lane::kMagic) {
    return Wrong("magic", header.magic, absl::StrCat(lane::kMagic));
  }
  if (header.version != lane::kVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "version = ", header.version,
        " of the lane's protocol; this server speaks ", lane::kVersion));
  }
  if (header.code != 0) return Wrong("code", header.code, "0");
  switch (header.kind) {
    case lane::MessageKind::kHello:
      return ParseHello(packet);
    case lane::MessageKind::kOpen:
      return ParseOpen(packet);
    case lane::MessageKind::kClose:
      return ParseClose(packet);
    case lane::MessageKind::kAttach:
      return ParseAttach(packet);
    default:
      return Wrong("kind", static_cast<uint16_t>(header.kind),
                   "1 (hello), 3 (open), 5 (close) or 8 (attach)");
  }
}

}  // namespace qgemm
