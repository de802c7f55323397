// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/lane/lane_memory.h"
#include "server/net/listen.h"

namespace qgemm {
namespace {

// Makes a lane's memory and gives it back: refused here rather than at the
// first client.
absl::Status CheckBackend(const LaneParts& parts) {
  const absl::Status memory =
      LaneMemory::Create(LayOutLane(lane::kMinSlots, 1), parts.backend)
          .status();
  if (!memory.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--lane_listen: ", memory.message()));
  }
  if (!parts.device_operands) return absl::OkStatus();
  const absl::Status of_device =
      parts.backend->ImportDeviceMemory(DeviceMemory()).status();
  if (!absl::IsUnimplemented(of_device)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--allow_device_operands: ", of_device.message()));
}

absl::Status EndOfService() {
  return absl::UnavailableError("the server ends; try another replica");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneService>> LaneService::Create(
    const LaneOptions& options, const LaneParts& parts) {
  ASSIGN_OR_RETURN(const ListenAddress address,
                   ParseListenAddress(options.listen));
  if (address.kind != ListenAddress::Kind::kUnix) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lane_listen = \"", options.listen,
                     "\" is not unix:path; lanes are for this host"));
  }
  RETURN_IF_ERROR(CheckBackend(parts));
  SocketFileOptions file = options.socket_file;
  file.type = SocketType::kPackets;
  ASSIGN_OR_RETURN(Listener listener, Listener::Open(address, file));
  return std::unique_ptr<LaneService>(
      new LaneService(options, parts, std::move(listener)));
}

LaneService::LaneService(const LaneOptions& options, const LaneParts& parts,
                         Listener listener)
    : path_(listener.address().path),
      requests_(parts, options.slow_request, options.wake_threads),
      poller_(options.spin, parts.backend->completions(),
              {[this](absl::Span<const LaneArrival> arrivals) {
                 requests_.Serve(arrivals);
               },
               [this] { control_.Notify(); },
               [metrics = parts.metrics] { metrics->LanesWoken(); }}),
      control_(std::move(listener), options.limits, parts, &requests_,
               &poller_) {}

LaneService::~LaneService() {
  BeginDrain(EndOfService());
  Stop();
}

void LaneService::Start() {
  poller_.Start();
  control_.Start();
}

void LaneService::BeginDrain(const absl::Status& refusal) {
  requests_.Refuse(refusal);
  control_.Refuse();
}

void LaneService::Stop() {
  requests_.WaitUntilNone();
  control_.Stop(EndOfService());
  poller_.Stop();
  // Those that came meanwhile were refused at once.
  requests_.WaitUntilNone();
}

}  // namespace qgemm
