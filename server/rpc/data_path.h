// SPDX-License-Identifier: Apache-2.0
//
// How operands travel between gRPC's memory and the backend's.

#ifndef QGEMM_SERVER_RPC_DATA_PATH_H_
#define QGEMM_SERVER_RPC_DATA_PATH_H_

#include <cstdint>

namespace qgemm {

enum class DataPath : uint8_t {
  kRaw,       // copied once on the way in, not at all on the way out
  kProtobuf,  // through messages, as generated code does; to compare with
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_DATA_PATH_H_
