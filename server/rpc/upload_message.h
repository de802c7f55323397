// SPDX-License-Identifier: Apache-2.0
//
// The messages of an upload, bounded before Protobuf parses them: fields that
// nobody knows take many times their bytes of memory and time.

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

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_UPLOAD_MESSAGE_H_
