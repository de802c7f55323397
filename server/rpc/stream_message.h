// SPDX-License-Identifier: Apache-2.0
//
// What the first message of a stream's request says: sizes, until when it is
// wanted, and whether it may be at all. Decisions only; gemm_stream_call.h acts
// on them.

#ifndef QGEMM_SERVER_RPC_STREAM_MESSAGE_H_
#define QGEMM_SERVER_RPC_STREAM_MESSAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/payload_message.h"
#include "qgemm/v1/qgemm.pb.h"
#include "server/rpc/gemm_plan.h"

namespace qgemm {

// Of A altogether, of which `a` is what came with the message; what no operand
// has if it does not fit.
uint64_t OperandBytes(const v1::GemmStreamRequest& message,
                      const ReceivedPayload& a);

// Of C in one message of the answer.
int64_t FragmentBytes(const v1::GemmStreamRequest& message,
                      int64_t max_message_bytes);

// Never, for a timeout of 0.
absl::Time DeadlineAfter(absl::Time arrival, uint64_t timeout_ms);

// The fields beside gemm. Errors: INVALID_ARGUMENT; RESOURCE_EXHAUSTED for an
// operand beyond the limit.
absl::Status CheckFields(const v1::GemmStreamRequest& message,
                         const ReceivedPayload& a, int64_t max_operand_bytes);

// RESOURCE_EXHAUSTED if a queue of so many bytes will never have room for the
// operands: they are not worth the transfer.
absl::Status CheckQueueTakes(const GemmPlan& plan, int64_t max_queued_bytes);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_STREAM_MESSAGE_H_
