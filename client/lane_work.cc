// SPDX-License-Identifier: Apache-2.0
//
// Takes from requests what concerns a lane.

#include "client/gemm_wire.h"
#include "client/lane_calls.h"
#include "client/run_wire.h"
#include "kernels/matrix/types.h"

namespace qgemm {
namespace {

// Entries count rows in 32 bits.
bool FitsEntry(int64_t m) { return m <= int64_t{UINT32_MAX}; }

}  // namespace

absl::Span<const absl::Span<const uint8_t>> InputsOf(
    const GemmRequest& request) {
  return absl::MakeConstSpan(&request.a, 1);
}
absl::Span<const absl::Span<const uint8_t>> InputsOf(
    const RunRequest& request) {
  return request.inputs;
}

std::optional<LaneWork> WorkOf(const GemmRequest& request) {
  if (!CheckOperand(request).ok() || !FitsEntry(request.m)) {
    return std::nullopt;
  }
  LaneWork work;
  work.target = {lane::HandleKind::kWeights, request.weights,
                 request.client_id};
  work.entry.m = static_cast<uint32_t>(request.m);
  work.entry.a_type = static_cast<uint8_t>(ToWire(request.a_type));
  work.entry.c_type = static_cast<uint8_t>(ToWire(request.result_type()));
  work.entry.mode = static_cast<uint8_t>(ToWire(request.mode));
  if (HasRounding(request)) {
    work.entry.rounding = static_cast<uint8_t>(ToWire(request.rounding));
  }
  work.entry.priority = static_cast<uint8_t>(ToWire(request.priority));
  work.a_unit_bytes = SizeOf(request.a_type);
  work.c_unit_bytes = SizeOf(request.result_type());
  work.inputs = InputsOf(request);
  if (!request.c.empty()) work.outputs = absl::MakeConstSpan(&request.c, 1);
  work.deadline = request.deadline;
  return work;
}

std::optional<LaneWork> WorkOf(const RunRequest& request) {
  // A completion has no times of ops.
  if (request.time_ops || !CheckInputs(request).ok() || !FitsEntry(request.m)) {
    return std::nullopt;
  }
  LaneWork work;
  work.target = {lane::HandleKind::kProgram, request.program,
                 request.client_id};
  work.entry.m = static_cast<uint32_t>(request.m);
  work.entry.priority = static_cast<uint8_t>(ToWire(request.priority));
  work.inputs = request.inputs;
  work.outputs = request.outputs;
  work.deadline = request.deadline;
  return work;
}

bool Lends(const GemmRequest& request) { return request.a_released != nullptr; }
bool Lends(const RunRequest& request) {
  return request.inputs_released != nullptr;
}

void Release(const GemmRequest& request) {
  if (Lends(request)) request.a_released();
}
void Release(const RunRequest& request) {
  if (Lends(request)) request.inputs_released();
}

void PointTo(absl::Span<const uint8_t> bytes, GemmRequest* request) {
  request->a = bytes.first(request->a.size());
}
void PointTo(absl::Span<const uint8_t> bytes, RunRequest* request) {
  for (absl::Span<const uint8_t>& input : request->inputs) {
    input = bytes.first(input.size());
    bytes.remove_prefix(input.size());
  }
}

}  // namespace qgemm
