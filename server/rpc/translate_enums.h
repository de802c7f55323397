// SPDX-License-Identifier: Apache-2.0
//
// Enums that requests and uploads share, from the wire.

#ifndef QGEMM_SERVER_RPC_TRANSLATE_ENUMS_H_
#define QGEMM_SERVER_RPC_TRANSLATE_ENUMS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/matrix/types.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// INVALID_ARGUMENT names `field` if the type is not set or does not exist.
absl::StatusOr<FloatType> ToFloatType(absl::string_view field,
                                      v1::FloatType type);

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_TRANSLATE_ENUMS_H_
