// SPDX-License-Identifier: Apache-2.0

#include "client/device_operands.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lane/messages.h"
#include "lane/segment.h"

namespace qgemm {
namespace {

constexpr absl::string_view kField =
    "ClientOptions::lane_options.device_operands";

// The reason why a lane does not carry what lies there; empty: it may.
std::string FaultOf(const DeviceOperands& memory,
                    absl::Span<const uint8_t> operand) {
  const int64_t offset = operand.data() - memory.data;
  if (offset % lane::kOperandAlignment != 0) {
    return absl::StrCat("begins at byte ", offset, " of memory of ", kField,
                        "; it must be a multiple of ", lane::kOperandAlignment);
  }
  if (static_cast<int64_t>(operand.size()) > memory.bytes - offset) {
    return absl::StrCat("has ", operand.size(), " bytes from byte ", offset,
                        " of memory of ", kField, ", which has ", memory.bytes);
  }
  return "";
}

struct NamedOperand {
  absl::string_view name;
  absl::Span<const uint8_t> bytes;
};

// OK if none of the operands lies there; else tells what is wrong with one of
// them, if anything is, after what the request lends was released.
absl::Status CheckOnHost(absl::Span<const DeviceOperands> all,
                         const std::vector<NamedOperand>& operands,
                         const std::function<void()>& released,
                         const absl::Status& checked) {
  std::string reason;
  for (const NamedOperand& operand : operands) {
    const DeviceOperands* const memory = FindDevice(all, operand.bytes);
    if (memory == nullptr) continue;
    const std::string fault = FaultOf(*memory, operand.bytes);
    if (!fault.empty()) {
      reason = absl::StrCat(operand.name, " ", fault);
      break;
    }
    reason = absl::StrCat(
        operand.name, " lies in memory of ", kField,
        ", which a lane alone reaches, and none carries the call: it must be "
        "one that a lane takes, with several inputs or outputs one behind the "
        "other, and lend them (a_released, inputs_released) if asynchronous");
  }
  if (reason.empty()) return absl::OkStatus();
  if (released != nullptr) released();
  return checked.ok() ? absl::FailedPreconditionError(reason) : checked;
}

}  // namespace

const DeviceOperands* FindDevice(absl::Span<const DeviceOperands> all,
                                 absl::Span<const uint8_t> operand) {
  const auto begin = reinterpret_cast<uintptr_t>(operand.data());
  for (const DeviceOperands& each : all) {
    const auto from = reinterpret_cast<uintptr_t>(each.data);
    if (begin >= from && begin - from < static_cast<uintptr_t>(each.bytes)) {
      return &each;
    }
  }
  return nullptr;
}

absl::Status CheckDeviceOperands(absl::Span<const DeviceOperands> all) {
  if (all.size() > lane::kMaxRegions) {
    return absl::InvalidArgumentError(
        absl::StrCat(kField, " has ", all.size(), " entries; a lane takes ",
                     lane::kMaxRegions, " at most"));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].data != nullptr && all[i].bytes > 0 && all[i].descriptor >= 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        kField, "[", i, "] has data ", all[i].data == nullptr ? "null" : "set",
        ", bytes = ", all[i].bytes, " and descriptor = ", all[i].descriptor,
        "; it needs the address, the size and the exported descriptor of an "
        "allocation"));
  }
  return absl::OkStatus();
}

absl::Status CheckOnHost(absl::Span<const DeviceOperands> all,
                         const GemmRequest& request,
                         const absl::Status& checked) {
  if (all.empty()) return absl::OkStatus();
  return CheckOnHost(all, {{"a", request.a}, {"c", request.c}},
                     request.a_released, checked);
}

absl::Status CheckOnHost(absl::Span<const DeviceOperands> all,
                         const RunRequest& request,
                         const absl::Status& checked) {
  if (all.empty()) return absl::OkStatus();
  std::vector<NamedOperand> operands;
  for (const auto& input : request.inputs) {
    operands.push_back({"an input", input});
  }
  for (const auto& output : request.outputs) {
    operands.push_back({"an output", output});
  }
  return CheckOnHost(all, operands, request.inputs_released, checked);
}

}  // namespace qgemm
