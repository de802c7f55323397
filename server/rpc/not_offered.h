// SPDX-License-Identifier: Apache-2.0
//
// What a caller hears of a method that this server does not offer: those of
// QgemmDebug without their flags, and those that nobody has heard of.

#ifndef QGEMM_SERVER_RPC_NOT_OFFERED_H_
#define QGEMM_SERVER_RPC_NOT_OFFERED_H_

#include <grpcpp/generic/async_generic_service.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace qgemm {

inline constexpr char kEchoPath[] = "/qgemm.v1.QgemmDebug/Echo";
inline constexpr char kFreezePath[] = "/qgemm.v1.QgemmDebug/Freeze";

// UNIMPLEMENTED; names the flag that would offer the method, if one would.
absl::Status NotOffered(absl::string_view path);

// Answers every method that no registered service has with NotOffered.
// Thread-safe.
class NotOfferedService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_NOT_OFFERED_H_
