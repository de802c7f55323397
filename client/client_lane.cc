// SPDX-License-Identifier: Apache-2.0
//
// The client's lane: whether there is one, and memory in it.

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "client/client_impl.h"
#include "lane/segment.h"
#include "qgemm/v1/qgemm.grpc.pb.h"
#include "rpc/grpc_status.h"

namespace qgemm {
namespace {

// A lane that is not required must not keep a client waiting for long.
constexpr absl::Duration kAutoLimit = absl::Seconds(2);
constexpr int64_t kMaxBufferBytes = int64_t{1} << 40;

absl::StatusOr<OperandBuffer> PlainMemory(int64_t bytes) {
  const size_t size =
      RoundUp(static_cast<size_t>(bytes), size_t{lane::kOperandAlignment});
  const std::shared_ptr<void> memory(
      std::aligned_alloc(lane::kOperandAlignment, size), std::free);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for operands of ", bytes, " bytes"));
  }
  return OperandBuffer(
      memory, absl::MakeSpan(static_cast<uint8_t*>(memory.get()), bytes),
      false);
}

}  // namespace

absl::Status Client::Impl::StartLane(absl::Duration timeout) {
  if (lane_use_ == LaneUse::kOff) return absl::OkStatus();
  const bool required = lane_use_ == LaneUse::kRequired;
  if (servers_.size() != 1 || !servers_[0].is_unix) {
    if (!required) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "ClientOptions::lane is kRequired; a lane needs one server as target, "
        "of the form unix:path");
  }
  if (!required) timeout = std::min(timeout, kAutoLimit);
  const absl::Status status = lane_keeper_.Start(absl::Now() + timeout);
  if (status.ok() || !required) return absl::OkStatus();
  return absl::Status(status.code(),
                      absl::StrCat("open a lane at ", servers_[0].address, ": ",
                                   status.message()));
}

void Client::Impl::Shutdown() {
  // The keeper's calls are the engine's: it must see that it is to stop before
  // the engine takes no more, and then be done with them.
  lane_keeper_.RequestStop();
  engine_.Shutdown();
  lane_keeper_.Join();
}

absl::StatusOr<std::string> Client::Impl::LanePath(absl::Time deadline) {
  grpc::ClientContext context;
  SetContextDeadline(deadline, &context);
  engine_.Authorize(&context);
  if (!engine_.Enter(&context)) {
    return absl::CancelledError("the client was destroyed");
  }
  const ChannelPool::Place place = engine_.pool().Enter({});
  v1::GetServerInfoResponse response;
  const absl::Status status = ToAbslStatus(
      v1::Qgemm::NewStub(place.channel)
          ->GetServerInfo(&context, v1::GetServerInfoRequest(), &response));
  engine_.pool().Leave(place, status);
  engine_.Leave(&context);
  RETURN_IF_ERROR(status);
  return response.lane_path();
}

absl::StatusOr<OperandBuffer> Client::AllocateOperands(int64_t bytes) {
  if (bytes < 1 || bytes > kMaxBufferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("AllocateOperands of ", bytes, " bytes; it must be 1 to ",
                     kMaxBufferBytes));
  }
  const bool required = impl_->lane_use() == LaneUse::kRequired;
  const std::shared_ptr<ClientLane> lane = impl_->lane_keeper().lane();
  if (lane == nullptr) {
    if (!required) return PlainMemory(bytes);
    return absl::UnavailableError("the server has ended the lane");
  }
  auto range = std::make_shared<LaneSegment::Range>(lane->Allocate(bytes));
  if (!range->is_none()) {
    const absl::Span<uint8_t> memory = range->bytes();
    return OperandBuffer(std::move(range), memory, true);
  }
  if (!required) return PlainMemory(bytes);
  return absl::ResourceExhaustedError(absl::StrCat(
      "the lane has no room for operands of ", bytes,
      " bytes; ClientLaneOptions::operand_bytes says how many it has"));
}

}  // namespace qgemm
