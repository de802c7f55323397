// SPDX-License-Identifier: Apache-2.0

#include "client/gemm_stream.h"

#include <utility>

#include "client/stream_call.h"

namespace qgemm {

GemmStream::GemmStream(std::shared_ptr<StreamCall> call,
                       std::shared_ptr<void> owner)
    : owner_(std::move(owner)), call_(std::move(call)) {}

GemmStream::~GemmStream() { call_->Abandon(); }

absl::StatusOr<uint64_t> GemmStream::Submit(const GemmOptions& options,
                                            GemmCallback callback) {
  return call_->Submit(options, std::move(callback));
}

void GemmStream::Cancel(uint64_t request) { call_->Cancel(request); }

absl::Status GemmStream::Finish() { return call_->Finish(); }

}  // namespace qgemm
