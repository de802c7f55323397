// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli), the checksum of one upload chunk.

#ifndef QGEMM_BASE_CRC32C_H_
#define QGEMM_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace qgemm {

// The CRC-32C of `bytes`, as iSCSI and gRPC peers compute it:
// Crc32c("123456789") == 0xe3069283. Uses the SSE4.2 instruction where the
// processor has it.
uint32_t Crc32c(absl::string_view bytes);

// The CRC-32C of a text whose beginning has `crc32c` and whose rest is
// `bytes`; 0 for an empty beginning.
uint32_t ExtendCrc32c(uint32_t crc32c, absl::string_view bytes);

}  // namespace qgemm

#endif  // QGEMM_BASE_CRC32C_H_
