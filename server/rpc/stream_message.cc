// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/stream_message.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// Of c in one message, unless the client says otherwise: what fits in the 4
// MiB that a stock client receives, with 1 KiB for the other fields.
constexpr int64_t kDefaultFragmentBytes = (int64_t{4} << 20) - 1024;
constexpr uint64_t kMinFragmentBytes = 4096;

}  // namespace

uint64_t OperandBytes(const v1::GemmStreamRequest& message,
                      const ReceivedPayload& a) {
  return message.a_bytes() == 0 ? static_cast<uint64_t>(a.bytes)
                                : message.a_bytes();
}

int64_t FragmentBytes(const v1::GemmStreamRequest& message,
                      int64_t max_message_bytes) {
  const int64_t asked = message.c_fragment_bytes() == 0
                            ? kDefaultFragmentBytes
                            : static_cast<int64_t>(std::min<uint64_t>(
                                  message.c_fragment_bytes(),
                                  std::numeric_limits<int64_t>::max()));
  return std::min(asked, MaxResultBytes(max_message_bytes));
}

absl::Time DeadlineAfter(absl::Time arrival, uint64_t timeout_ms) {
  if (timeout_ms == 0) return absl::InfiniteFuture();
  return arrival + absl::Milliseconds(static_cast<int64_t>(std::min<uint64_t>(
                       timeout_ms, std::numeric_limits<int64_t>::max())));
}

absl::Status CheckFields(const v1::GemmStreamRequest& message,
                         const ReceivedPayload& a, int64_t max_operand_bytes) {
  const uint64_t a_bytes = OperandBytes(message, a);
  if (message.offset() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "offset = ", message.offset(), " beside gemm; it must be 0"));
  }
  if (!message.gemm().a().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gemm.a has ", message.gemm().a().size(),
                     " bytes; in a stream A is in the field beside gemm"));
  }
  if (static_cast<uint64_t>(a.bytes) > a_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a has ", a.bytes, " bytes; a_bytes = ", a_bytes));
  }
  if (a_bytes > static_cast<uint64_t>(max_operand_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a_bytes = ", a_bytes, " is beyond the limit of ", max_operand_bytes,
        " (--max_stream_operand_bytes); split the rows over several requests"));
  }
  if (message.c_fragment_bytes() != 0 &&
      message.c_fragment_bytes() < kMinFragmentBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("c_fragment_bytes = ", message.c_fragment_bytes(),
                     "; it must be 0 or at least ", kMinFragmentBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckQueueTakes(const GemmPlan& plan, int64_t max_queued_bytes) {
  if (plan.a_bytes <= max_queued_bytes - plan.c_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the operands have ", plan.a_bytes, " and ", plan.c_bytes,
      " bytes, together more than the queue's ", max_queued_bytes,
      " (--max_queued_bytes); split the rows over several requests"));
}

}  // namespace qgemm
