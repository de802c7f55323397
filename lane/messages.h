// SPDX-License-Identifier: Apache-2.0
//
// Messages on a lane's socket (SOCK_SEQPACKET), byte by byte (docs/lane.md):
// they open the lane, and the weights and programs that its requests name.

#ifndef QGEMM_LANE_MESSAGES_H_
#define QGEMM_LANE_MESSAGES_H_

#include <cstddef>
#include <cstdint>

namespace qgemm::lane {

// A message is one packet: a struct, then the bytes that it counts, nothing
// else. Numbers are little-endian. The client sends kHello first and once; then
// kOpen, kClose and kAttach, at any time, each answered in order by kOpened,
// kClosed and kAttached.
// The lane lasts as long as the socket: its end on either side ends both.
//
// Any answer may be an error: `code` is not 0, `text` says why, and the other
// fields are 0. After an error in kAccept the server hangs up.

inline constexpr uint32_t kMagic = 0x4e4c4751;  // "QGLN"
inline constexpr uint16_t kVersion = 1;

// Largest packet, and largest parts of one.
inline constexpr uint32_t kMaxPacketBytes = 8192;
inline constexpr uint32_t kMaxTokenBytes = 4096;
inline constexpr uint32_t kMaxNameBytes = 128;  // also of a client_id
inline constexpr uint32_t kMaxTextBytes = 1024;

enum class MessageKind : uint16_t {
  kHello = 1,     // client: Hello, token
  kAccept = 2,    // server: Accept, text; three descriptors if code is 0
  kOpen = 3,      // client: Open, name, client_id
  kOpened = 4,    // server: Opened, text
  kClose = 5,     // client: Close
  kClosed = 6,    // server: Closed, text
  kEnd = 7,       // server: End, text; then it hangs up
  kAttach = 8,    // client: Attach; one descriptor
  kAttached = 9,  // server: Attached, text
};

struct MessageHeader {
  uint32_t magic = kMagic;
  MessageKind kind = MessageKind::kHello;
  // Version of the protocol. The server refuses what it does not know, with
  // UNIMPLEMENTED and its own version.
  uint16_t version = kVersion;
  uint32_t sequence = 0;  // the client's choice; an answer has its request's
  uint32_t code = 0;      // google.rpc.Code; 0 from the client
};
static_assert(offsetof(MessageHeader, magic) == 0, "layout");
static_assert(offsetof(MessageHeader, kind) == 4, "layout");
static_assert(offsetof(MessageHeader, version) == 6, "layout");
static_assert(offsetof(MessageHeader, sequence) == 8, "layout");
static_assert(offsetof(MessageHeader, code) == 12, "layout");
static_assert(sizeof(MessageHeader) == 16, "layout");

struct Hello {
  MessageHeader header;
  uint64_t operand_bytes = 0;  // wanted, 1 or more
  uint32_t slots = 0;          // wanted; 0: as many as the server likes
  // Token of the access table, without "Bearer "; 0 bytes: the socket's user
  // tells who calls.
  uint32_t token_bytes = 0;
};
static_assert(offsetof(Hello, operand_bytes) == 16, "layout");
static_assert(offsetof(Hello, slots) == 24, "layout");
static_assert(offsetof(Hello, token_bytes) == 28, "layout");
static_assert(sizeof(Hello) == 32, "layout");

// With it come, in one SCM_RIGHTS, three descriptors:
//   segment   a sealed memfd of `segment_bytes`
//   doorbell  an eventfd, which the client writes to and the server never reads
//   wake      a socket that does not block; each wake of the client is a packet
//             of 8 bytes. Whoever woke reads until EAGAIN. It ends with the
//             lane
struct Accept {
  MessageHeader header;
  uint64_t segment_bytes = 0;
  uint64_t requests_offset = 0;     // within the segment
  uint64_t completions_offset = 0;  // within the segment
  uint64_t done_words_offset = 0;   // within the segment
  uint64_t operands_offset = 0;     // within the segment
  uint64_t operands_bytes = 0;      // at least what was wanted
  uint32_t slots = 0;  // a power of two; what was wanted, rounded up
  uint32_t text_bytes = 0;
};
static_assert(offsetof(Accept, segment_bytes) == 16, "layout");
static_assert(offsetof(Accept, requests_offset) == 24, "layout");
static_assert(offsetof(Accept, completions_offset) == 32, "layout");
static_assert(offsetof(Accept, done_words_offset) == 40, "layout");
static_assert(offsetof(Accept, operands_offset) == 48, "layout");
static_assert(offsetof(Accept, operands_bytes) == 56, "layout");
static_assert(offsetof(Accept, slots) == 64, "layout");
static_assert(offsetof(Accept, text_bytes) == 68, "layout");
static_assert(sizeof(Accept) == 72, "layout");

// Kind of what a handle stands for.
enum class HandleKind : uint32_t { kWeights = 1, kProgram = 2 };

// Opens weights or a program by a name or an id. Requests find what it is bound
// to when the server takes them, as a Gemm or a Run would: a name that is bound
// anew or dropped meanwhile is so for the handle too.
struct Open {
  MessageHeader header;
  HandleKind kind = HandleKind::kWeights;
  uint32_t name_bytes = 0;
  // As GemmRequest.client_id, for all requests of the handle; 0 bytes: the lane
  // is a client of its own.
  uint32_t client_id_bytes = 0;
  uint32_t reserved = 0;  // 0
};
static_assert(offsetof(Open, kind) == 16, "layout");
static_assert(offsetof(Open, name_bytes) == 20, "layout");
static_assert(offsetof(Open, client_id_bytes) == 24, "layout");
static_assert(offsetof(Open, reserved) == 28, "layout");
static_assert(sizeof(Open) == 32, "layout");

// The shape is the one that the name is bound to now.
struct Opened {
  MessageHeader header;
  HandleKind kind = HandleKind::kWeights;
  uint32_t handle = 0;
  uint64_t n = 0;                 // of weights
  uint64_t k = 0;                 // of weights
  uint64_t input_row_bytes = 0;   // of a program
  uint64_t output_row_bytes = 0;  // of a program
  char id[64] = {};               // hexadecimal digits
  uint32_t text_bytes = 0;
  uint32_t reserved = 0;  // 0
};
static_assert(offsetof(Opened, kind) == 16, "layout");
static_assert(offsetof(Opened, handle) == 20, "layout");
static_assert(offsetof(Opened, n) == 24, "layout");
static_assert(offsetof(Opened, k) == 32, "layout");
static_assert(offsetof(Opened, input_row_bytes) == 40, "layout");
static_assert(offsetof(Opened, output_row_bytes) == 48, "layout");
static_assert(offsetof(Opened, id) == 56, "layout");
static_assert(offsetof(Opened, text_bytes) == 120, "layout");
static_assert(offsetof(Opened, reserved) == 124, "layout");
static_assert(sizeof(Opened) == 128, "layout");

// Gives a handle back, whose number another may get. Requests that the server
// took before keep what they need.
struct Close {
  MessageHeader header;
  uint32_t handle = 0;
  uint32_t reserved = 0;  // 0
};
static_assert(offsetof(Close, handle) == 16, "layout");
static_assert(offsetof(Close, reserved) == 20, "layout");
static_assert(sizeof(Close) == 24, "layout");

struct Closed {
  MessageHeader header;
  uint32_t text_bytes = 0;
  uint32_t reserved = 0;  // 0
};
static_assert(offsetof(Closed, text_bytes) == 16, "layout");
static_assert(offsetof(Closed, reserved) == 20, "layout");
static_assert(sizeof(Closed) == 24, "layout");

// Lends device memory of the client's for operands, until the lane ends. With
// it comes, in an SCM_RIGHTS, the descriptor that the client's CUDA driver
// exported for an allocation (cuMemExportToShareableHandle, POSIX file
// descriptor). The server takes it only if it was told to
// (--allow_device_operands).
struct Attach {
  MessageHeader header;
  uint64_t bytes = 0;            // of the allocation, all of it
  uint8_t device_uuid[16] = {};  // of the GPU that holds it (cuDeviceGetUuid)
};
static_assert(offsetof(Attach, bytes) == 16, "layout");
static_assert(offsetof(Attach, device_uuid) == 24, "layout");
static_assert(sizeof(Attach) == 40, "layout");

// The number of the memory, 1 or more, for requests.
struct Attached {
  MessageHeader header;
  uint32_t region = 0;
  uint32_t text_bytes = 0;
};
static_assert(offsetof(Attached, region) == 16, "layout");
static_assert(offsetof(Attached, text_bytes) == 20, "layout");
static_assert(sizeof(Attached) == 24, "layout");

// Most regions that a lane attaches.
inline constexpr uint32_t kMaxRegions = 16;

// The server ends the lane, and why; answers nothing.
struct End {
  MessageHeader header;
  uint32_t text_bytes = 0;
  uint32_t reserved = 0;  // 0
};
static_assert(offsetof(End, text_bytes) == 16, "layout");
static_assert(offsetof(End, reserved) == 20, "layout");
static_assert(sizeof(End) == 24, "layout");

}  // namespace qgemm::lane

#endif  // QGEMM_LANE_MESSAGES_H_
