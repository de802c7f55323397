// SPDX-License-Identifier: Apache-2.0
//
// Packets of a lane's socket (lane/messages.h): those of clients, checked, and
// those of the server, built. Values only.

#ifndef QGEMM_SERVER_LANE_PACKETS_H_
#define QGEMM_SERVER_LANE_PACKETS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lane/messages.h"

namespace qgemm {

// Contents of a client's packet.
struct HelloPacket {
  uint32_t sequence = 0;
  int64_t operand_bytes = 0;  // 1 to 2^40
  uint32_t slots = 0;         // a power of two within the bounds
  std::string token;          // may be empty
};
struct OpenPacket {
  uint32_t sequence = 0;
  lane::HandleKind kind = lane::HandleKind::kWeights;
  std::string name;
  std::string client_id;
};
struct ClosePacket {
  uint32_t sequence = 0;
  uint32_t handle = 0;
};
struct AttachPacket {
  uint32_t sequence = 0;
  int64_t bytes = 0;  // 1 to 2^40
  std::array<uint8_t, 16> device_uuid = {};
};
using ClientPacket =
    std::variant<HelloPacket, OpenPacket, ClosePacket, AttachPacket>;

// Slots of a lane whose client leaves their number to the server.
inline constexpr uint32_t kDefaultSlots = 256;

// Errors: INVALID_ARGUMENT names the field, its value and the limit;
// UNIMPLEMENTED for another version of the protocol.
absl::StatusOr<ClientPacket> ParsePacket(absl::string_view packet);

// The bytes of a server's packet: `message`, whose `text_bytes` is set, and the
// status's text behind it. The header has the kind, the sequence and the code.
template <typename Message>
std::string WritePacket(Message message, lane::MessageKind kind,
                        uint32_t sequence, const absl::Status& status) {
  message.header.kind = kind;
  message.header.sequence = sequence;
  message.header.code = static_cast<uint32_t>(status.raw_code());
  const absl::string_view text =
      status.message().substr(0, lane::kMaxTextBytes);
  message.text_bytes = static_cast<uint32_t>(text.size());
  std::string packet(sizeof(message), '\0');
  std::memcpy(&packet[0], &message, sizeof(message));
  packet.append(text.data(), text.size());
  return packet;
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_LANE_PACKETS_H_
