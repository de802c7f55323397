// SPDX-License-Identifier: Apache-2.0
//
// Operands in memory of the server's GPU, which a lane carries where they lie
// and gRPC not at all: this process must not read or write them.

#ifndef QGEMM_CLIENT_DEVICE_OPERANDS_H_
#define QGEMM_CLIENT_DEVICE_OPERANDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "qgemm/client_options.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm {

// The memory in which the operand begins; null: it lies on the host.
const DeviceOperands* FindDevice(absl::Span<const DeviceOperands> all,
                                 absl::Span<const uint8_t> operand);

// True if one of the operands, or of the places for results, lies there.
template <typename Byte>
bool AnyOnDevice(absl::Span<const DeviceOperands> all,
                 absl::Span<const absl::Span<Byte>> operands) {
  for (const auto& operand : operands) {
    if (FindDevice(all, operand) != nullptr) return true;
  }
  return false;
}

// Checks what a client is given. INVALID_ARGUMENT names the field.
absl::Status CheckDeviceOperands(absl::Span<const DeviceOperands> all);

// FAILED_PRECONDITION if gRPC cannot carry the request, as no lane did; or, if
// it has faults besides, `checked`, which tells them. Then what the request
// lends has been released.
absl::Status CheckOnHost(absl::Span<const DeviceOperands> all,
                         const GemmRequest& request,
                         const absl::Status& checked);
absl::Status CheckOnHost(absl::Span<const DeviceOperands> all,
                         const RunRequest& request,
                         const absl::Status& checked);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_DEVICE_OPERANDS_H_
