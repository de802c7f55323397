// SPDX-License-Identifier: Apache-2.0
//
// Sizes of messages that both ends of the wire agree on.

#ifndef QGEMM_RPC_MESSAGE_LIMITS_H_
#define QGEMM_RPC_MESSAGE_LIMITS_H_

#include <cstdint>

namespace qgemm {

// Default of --max_message_bytes on both ends. gRPC counts a message's bytes
// in an int, which bounds what may be set.
inline constexpr int64_t kDefaultMaxMessageBytes = int64_t{64} << 20;

// Room that a sender leaves in a message for the fields beside an operand or
// a chunk: names and ids of at most 128 bytes each, numbers, tags, lengths.
inline constexpr int64_t kMessageOverheadBytes = 1024;

// Most bytes of the request of a method that carries no operand and no chunk.
inline constexpr int64_t kMaxQueryBytes = int64_t{64} << 10;

// Most bytes of a message with an operand or a chunk beside that itself. Its
// own fields take less than kMessageOverheadBytes; the rest is room for fields
// that a later version may add.
inline constexpr int64_t kMaxFieldBytes = int64_t{64} << 10;

// Fewest bytes of an operand in one fragment of a stream, its last excepted.
inline constexpr int64_t kMinFragmentBytes = 4096;

// Bytes of C in one message of a stream's answer, unless the client asks for
// another size: fits the 4 MiB that a gRPC client receives by default.
inline constexpr int64_t kDefaultFragmentBytes =
    (int64_t{4} << 20) - kMessageOverheadBytes;

}  // namespace qgemm

#endif  // QGEMM_RPC_MESSAGE_LIMITS_H_
