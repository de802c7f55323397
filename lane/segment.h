// SPDX-License-Identifier: Apache-2.0
//
// Shared memory of a lane, byte by byte (docs/lane.md): what a client and the
// server write there, and which of them. How a lane is opened is in
// lane/messages.h, how its sides sleep in lane/doorbell.h.

#ifndef QGEMM_LANE_SEGMENT_H_
#define QGEMM_LANE_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace qgemm::lane {

// Numbers are little-endian. The segment has, at offsets that the server tells
// when it accepts the lane:
//   SegmentHead          at 0
//   RequestEntry[slots]  ring: the entry of the p-th request is p mod slots
//   Completion[slots]    one a slot, in any order
//   DoneWord[slots]      ring: the word of the p-th completion is p mod slots
//   operands             bytes that the client divides as it likes
//
// A request takes a slot that is free, which its client chooses, until the
// client has read the completion of that slot. So no ring ever overflows, and
// neither side tells the other how far it has read. A client that breaks this
// spoils its own answers, or the server ends its lane.

// Alignment of each part, and of A and C within the operands.
inline constexpr uint64_t kOperandAlignment = 64;

// Slots of a lane: a power of two within these bounds.
inline constexpr uint32_t kMinSlots = 8;
inline constexpr uint32_t kMaxSlots = 4096;

using SharedU32 = std::atomic<uint32_t>;
using SharedU64 = std::atomic<uint64_t>;
static_assert(SharedU32::is_always_lock_free && sizeof(SharedU32) == 4,
              "words of shared memory are plain 32-bit words");
static_assert(SharedU64::is_always_lock_free && sizeof(SharedU64) == 8,
              "words of shared memory are plain 64-bit words");

// Words that both sides look at, each in a cache line of its own.
struct SegmentHead {
  // Requests published since the lane began. The client writes the entry, then
  // this.
  alignas(64) SharedU64 published;
  // 1: the server sleeps, and whoever publishes a request writes 1 to the
  // doorbell. The server alone writes it.
  alignas(64) SharedU32 server_sleeps;
  // 1: the client sleeps on its wake socket, which the server writes to after
  // the next completion. The client alone writes it.
  alignas(64) SharedU32 client_sleeps;
  // Not 0: the lane has ended, with this google.rpc.Code. Nothing is read from
  // the ring any more; what was accepted before may still complete. The server
  // alone writes it.
  alignas(64) SharedU32 ended;
};
static_assert(offsetof(SegmentHead, published) == 0, "layout");
static_assert(offsetof(SegmentHead, server_sleeps) == 64, "layout");
static_assert(offsetof(SegmentHead, client_sleeps) == 128, "layout");
static_assert(offsetof(SegmentHead, ended) == 192, "layout");
static_assert(sizeof(SegmentHead) == 256, "layout");

// Element types, modes and priorities have the numbers of qgemm.proto.

// One Gemm or Run, as the handle is of weights or of a program. Written by the
// client.
struct RequestEntry {
  uint32_t handle = 0;  // as the server named it when it was opened
  uint32_t m = 0;       // rows, 1 or more
  uint32_t slot = 0;    // of the completion; free
  uint32_t cookie = 0;  // that the completion shows; differs from the one that
                        // the slot shows now
  uint64_t a_offset = 0;  // of A, or the inputs, within their memory
  uint64_t a_bytes = 0;   // exactly m rows
  uint64_t c_offset = 0;  // of C, or the outputs; overlaps no operand in use
  uint64_t c_bytes = 0;   // exactly m rows
  // The request is dropped if its launch has not begun this long after the
  // server took it. 0: no limit.
  uint64_t timeout_ns = 0;
  uint8_t a_type = 0;    // FloatType; 0 for a program, as the three below
  uint8_t c_type = 0;    // FloatType; 0: a_type
  uint8_t mode = 0;      // ComputeMode
  uint8_t rounding = 0;  // FloatType, as GemmRequest's
  uint8_t priority = 0;  // Priority
  // Memory that the offset counts in: 0 for the operands here, else a region
  // that was attached (lane/messages.h).
  uint8_t a_region = 0;
  uint8_t c_region = 0;
  uint8_t reserved = 0;  // 0
};
static_assert(offsetof(RequestEntry, handle) == 0, "layout");
static_assert(offsetof(RequestEntry, m) == 4, "layout");
static_assert(offsetof(RequestEntry, slot) == 8, "layout");
static_assert(offsetof(RequestEntry, cookie) == 12, "layout");
static_assert(offsetof(RequestEntry, a_offset) == 16, "layout");
static_assert(offsetof(RequestEntry, a_bytes) == 24, "layout");
static_assert(offsetof(RequestEntry, c_offset) == 32, "layout");
static_assert(offsetof(RequestEntry, c_bytes) == 40, "layout");
static_assert(offsetof(RequestEntry, timeout_ns) == 48, "layout");
static_assert(offsetof(RequestEntry, a_type) == 56, "layout");
static_assert(offsetof(RequestEntry, c_type) == 57, "layout");
static_assert(offsetof(RequestEntry, mode) == 58, "layout");
static_assert(offsetof(RequestEntry, rounding) == 59, "layout");
static_assert(offsetof(RequestEntry, priority) == 60, "layout");
static_assert(offsetof(RequestEntry, a_region) == 61, "layout");
static_assert(offsetof(RequestEntry, c_region) == 62, "layout");
static_assert(offsetof(RequestEntry, reserved) == 63, "layout");
static_assert(sizeof(RequestEntry) == 64, "layout");

// Bytes of an error's text; a longer one is cut.
inline constexpr uint32_t kMaxMessageBytes = 432;

// End of the request that has the slot. Written by the server, `cookie` last,
// but for `sleeps`. Both words start as 0. The first cache line is all of an
// answer that is no error.
struct Completion {
  // The request's, once all else, and C, is there. A futex: whoever waits for
  // this slot alone may sleep on it, not with FUTEX_PRIVATE_FLAG, and for a
  // bounded time, since the server may have died.
  SharedU32 cookie;
  // 1: somebody sleeps on `cookie`, and the server wakes all who do. Written by
  // the client.
  SharedU32 sleeps;
  uint32_t code = 0;  // google.rpc.Code
  uint32_t message_bytes = 0;
  // As qgemm.v1.Timings; 0 in errors.
  uint64_t queue_ns = 0;
  uint64_t host_to_device_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t device_to_host_ns = 0;
  uint64_t total_ns = 0;  // entry taken until the completion is written
  uint32_t launch_rows = 0;
  uint32_t launch_requests = 0;
  // The rest is written in errors alone. Above 0: the same request may succeed
  // after this time.
  uint64_t retry_delay_ns = 0;
  uint64_t reserved = 0;
  char message[kMaxMessageBytes] = {};
};
static_assert(offsetof(Completion, cookie) == 0, "layout");
static_assert(offsetof(Completion, sleeps) == 4, "layout");
static_assert(offsetof(Completion, code) == 8, "layout");
static_assert(offsetof(Completion, message_bytes) == 12, "layout");
static_assert(offsetof(Completion, queue_ns) == 16, "layout");
static_assert(offsetof(Completion, host_to_device_ns) == 24, "layout");
static_assert(offsetof(Completion, kernel_ns) == 32, "layout");
static_assert(offsetof(Completion, device_to_host_ns) == 40, "layout");
static_assert(offsetof(Completion, total_ns) == 48, "layout");
static_assert(offsetof(Completion, launch_rows) == 56, "layout");
static_assert(offsetof(Completion, launch_requests) == 60, "layout");
static_assert(offsetof(Completion, retry_delay_ns) == 64, "layout");
static_assert(offsetof(Completion, message) == 80, "layout");
static_assert(sizeof(Completion) == 512, "layout");

// One completion, in the order in which they come, for a client that waits for
// any: the slot in the low half, in the high half the lap around the ring, 1 at
// first. Written by the server after the completion's cookie; 0 at first. A
// client that waits for slots alone need not read it.
using DoneWord = SharedU64;

// The word of the p-th completion, p = 0 at first. Laps count modulo 2^32.
constexpr uint64_t DoneWordOf(uint64_t position, uint32_t slots,
                              uint32_t slot) {
  return ((position / slots + 1) << 32) | slot;
}

}  // namespace qgemm::lane

#endif  // QGEMM_LANE_SEGMENT_H_
