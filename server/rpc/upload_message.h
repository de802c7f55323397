// SPDX-License-Identifier: Apache-2.0
//
// The messages that bring layers and programs, bounded before Protobuf parses
// them: fields that nobody knows take many times their bytes of memory and
// time, and so do small ones by the ten thousand.

#ifndef QGEMM_SERVER_RPC_UPLOAD_MESSAGE_H_
#define QGEMM_SERVER_RPC_UPLOAD_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// Parses one message, and frees the buffer. INVALID_ARGUMENT: more than
// kMaxFieldBytes (message_limits.h) beside chunk.bytes, or not such a message.
absl::Status ReadUploadMessage(grpc::ByteBuffer* buffer,
                               v1::LoadWeightsRequest* message);

// The same for a program. INVALID_ARGUMENT: more than kMaxFieldBytes beside the
// values of its constants, or more of those than a program may have.
absl::Status ReadProgramMessage(grpc::ByteBuffer* buffer,
                                v1::LoadProgramRequest* message);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UPLOAD_MESSAGE_H_
