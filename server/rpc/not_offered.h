// SPDX-License-Identifier: Apache-2.0
//
// What a caller hears of a method that this server does not offer: those of
// QgemmDebug without their flags, and those that nobody has heard of.

#ifndef QGEMM_SERVER_RPC_NOT_OFFERED_H_
#define QGEMM_SERVER_RPC_NOT_OFFERED_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/live_calls.h"

namespace qgemm {

inline constexpr char kEchoPath[] = "/qgemm.v1.QgemmDebug/Echo";
inline constexpr char kFreezePath[] = "/qgemm.v1.QgemmDebug/Freeze";

// UNIMPLEMENTED; names the flag that would offer the method, if one would.
absl::Status NotOffered(absl::string_view path);

// Answers every method that no registered service has with NotOffered.
// The life of the service: Register, the server is built, Accept. Thread-safe.
// Must outlive the calls it accepts.
class NotOfferedService {
 public:
  // `live_calls` must outlive this.
  explicit NotOfferedService(LiveCalls* live_calls) : live_calls_(live_calls) {}

  void Register(grpc::ServerBuilder* builder);

  // Waits for one more call on `queue`; each accepted call makes room for the
  // next.
  void Accept(CompletionQueue* queue);

 private:
  class Call;

  LiveCalls* const live_calls_;
  grpc::AsyncGenericService service_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_NOT_OFFERED_H_
