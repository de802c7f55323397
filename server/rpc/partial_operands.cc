// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/partial_operands.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace qgemm {

absl::StatusOr<PartialOperands::Share> PartialOperands::Take(int64_t bytes) {
  MutexLock lock(&mutex_);
  if (bytes > limit_bytes_ - held_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("operands that have come in part hold ", held_bytes_,
                     " bytes and a has ", bytes, ", the limit is ",
                     limit_bytes_, " (--max_queued_bytes); retry later"));
  }
  held_bytes_ += bytes;
  return Share(this, bytes);
}

void PartialOperands::GiveBack(int64_t bytes) {
  MutexLock lock(&mutex_);
  held_bytes_ -= bytes;
}

}  // namespace qgemm
