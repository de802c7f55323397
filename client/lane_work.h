// SPDX-License-Identifier: Apache-2.0
//
// A Gemm or a Run as a lane carries it, and its operands, whichever it is.

#ifndef QGEMM_CLIENT_LANE_WORK_H_
#define QGEMM_CLIENT_LANE_WORK_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "client/lane.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"

namespace qgemm {

// The request as a lane carries it, which borrows from it; nullopt: it does
// not, or a call says what is wrong with it.
std::optional<LaneWork> WorkOf(const GemmRequest& request);
std::optional<LaneWork> WorkOf(const RunRequest& request);

absl::Span<const absl::Span<const uint8_t>> InputsOf(
    const GemmRequest& request);
absl::Span<const absl::Span<const uint8_t>> InputsOf(const RunRequest& request);

// True if the operands stay until they are released.
bool Lends(const GemmRequest& request);
bool Lends(const RunRequest& request);

// Tells who lent them, if somebody did, that they are not in use any more.
void Release(const GemmRequest& request);
void Release(const RunRequest& request);

// Makes the bytes, one operand behind the other, the request's.
void PointTo(absl::Span<const uint8_t> bytes, GemmRequest* request);
void PointTo(absl::Span<const uint8_t> bytes, RunRequest* request);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_LANE_WORK_H_
