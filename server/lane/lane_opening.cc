// SPDX-License-Identifier: Apache-2.0
//
// Part of LaneControl: opens lanes, the handles of their requests, and memory
// that they are lent.

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/lane/lane_control.h"
#include "server/lane/lane_sockets.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

lane::Accept Describe(const LaneLayout& layout) {
  lane::Accept accept;
  accept.segment_bytes = layout.segment_bytes;
  accept.requests_offset = layout.requests_offset;
  accept.completions_offset = layout.completions_offset;
  accept.done_words_offset = layout.done_words_offset;
  accept.operands_offset = layout.operands_offset;
  accept.operands_bytes = layout.operands_bytes;
  accept.slots = layout.slots;
  return accept;
}

}  // namespace

// A refusal is an answer; then the connection ends.
absl::Status LaneControl::OpenLane(const HelloPacket& hello,
                                   Connection* connection) {
  const absl::Status opened = MakeLane(hello, connection);
  if (opened.ok()) return opened;
  parts_.metrics->ConnectionRefused("lane");
  (void)SendPacket(connection->socket.get(),
                   WritePacket(lane::Accept(), lane::MessageKind::kAccept,
                               hello.sequence, opened));
  return opened;
}

absl::Status LaneControl::MakeLane(const HelloPacket& hello,
                                   Connection* connection) {
  if (refuses_.load()) return Draining();
  auto client =
      std::make_shared<const LaneClient>(&gate_, connection->peer, hello.token);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Peer> peer, client->Current());
  const LaneLayout layout = LayOutLane(hello.slots, hello.operand_bytes);
  RETURN_IF_ERROR(CountAs(peer->identity, layout.segment_bytes, connection));
  ASSIGN_OR_RETURN(std::unique_ptr<const LaneMemory> memory,
                   LaneMemory::Create(layout, parts_.backend));
  ASSIGN_OR_RETURN(LaneEvents events, MakeLaneEvents());
  const std::array<int, 3> descriptors = {memory->fd(), events.doorbell.get(),
                                          events.client_wake.get()};
  RETURN_IF_ERROR(
      SendPacket(connection->socket.get(),
                 WritePacket(Describe(layout), lane::MessageKind::kAccept,
                             hello.sequence, absl::OkStatus()),
                 descriptors));
  connection->lane =
      std::make_shared<Lane>(std::move(memory), std::move(events.doorbell),
                             std::move(events.wake), std::move(client));
  parts_.metrics->ConnectionsChanged("lane", 1);
  parts_.metrics->LaneBytesChanged(layout.segment_bytes);
  poller_->Add(connection->lane);
  EVENT(INFO, "lane_opened")
      .With("client", peer->identity)
      .With("address", peer->address)
      .With("slots", layout.slots)
      .With("bytes", layout.segment_bytes);
  return absl::OkStatus();
}

absl::Status LaneControl::CountAs(const std::string& identity, int64_t bytes,
                                  Connection* connection) {
  Uncount(connection);
  RETURN_IF_ERROR(quota_.Take(identity, bytes));
  connection->counted = Counted{identity, bytes};
  return absl::OkStatus();
}

void LaneControl::Uncount(Connection* connection) {
  if (!connection->counted.has_value()) return;
  quota_.Return(connection->counted->identity, connection->counted->bytes);
  connection->counted.reset();
}

absl::Status LaneControl::OpenHandle(const OpenPacket& open,
                                     Connection* connection) {
  const absl::StatusOr<lane::Opened> opened = MakeHandle(open, connection);
  return SendPacket(
      connection->socket.get(),
      WritePacket(opened.ok() ? *opened : lane::Opened(),
                  lane::MessageKind::kOpened, open.sequence, opened.status()));
}

absl::StatusOr<lane::Opened> LaneControl::MakeHandle(const OpenPacket& open,
                                                     Connection* connection) {
  Lane& lane = *connection->lane;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Peer> peer,
                   lane.client().Current());
  const Principal* const principal = peer->principal.get();
  RETURN_IF_ERROR(CheckClientId(open.client_id));
  lane::Opened opened;
  opened.kind = open.kind;
  if (open.kind == lane::HandleKind::kProgram) {
    ASSIGN_OR_RETURN(const auto found,
                     parts_.programs->Find(principal, open.name));
    const CheckedProgram& program = found->compiled->program();
    opened.input_row_bytes = program.input_row_bytes();
    opened.output_row_bytes = program.output_row_bytes();
    found->id.copy(opened.id, sizeof(opened.id));
  } else {
    ASSIGN_OR_RETURN(const auto found,
                     parts_.store->Find(principal, open.name));
    opened.n = found->spec.n;
    opened.k = found->spec.k;
    found->id.copy(opened.id, sizeof(opened.id));
  }
  ASSIGN_OR_RETURN(opened.handle,
                   lane.handles().Open({open.kind, open.name, open.client_id}));
  return opened;
}

absl::Status LaneControl::AttachMemory(const AttachPacket& attach,
                                       const FileDescriptor& descriptor,
                                       Connection* connection) {
  const absl::StatusOr<lane::Attached> attached =
      MakeRegion(attach, descriptor, connection->lane.get());
  return SendPacket(connection->socket.get(),
                    WritePacket(attached.ok() ? *attached : lane::Attached(),
                                lane::MessageKind::kAttached, attach.sequence,
                                attached.status()));
}

absl::StatusOr<lane::Attached> LaneControl::MakeRegion(
    const AttachPacket& attach, const FileDescriptor& descriptor,
    Lane* lane) const {
  RETURN_IF_ERROR(lane->client().Current().status());
  if (!parts_.device_operands) {
    return absl::FailedPreconditionError(
        "the server takes no memory of clients' GPUs; --allow_device_operands "
        "would have it do so");
  }
  if (!descriptor.valid()) {
    return absl::InvalidArgumentError("no descriptor came with attach");
  }
  RETURN_IF_ERROR(lane->regions().CheckRoom());
  ASSIGN_OR_RETURN(StagingLease memory,
                   parts_.backend->ImportDeviceMemory(
                       {descriptor.get(), attach.bytes, attach.device_uuid}));
  lane::Attached attached;
  attached.region = lane->regions().Attach(std::move(memory));
  return attached;
}

absl::Status LaneControl::CloseHandle(const ClosePacket& close,
                                      Connection* connection) {
  const absl::Status closed = connection->lane->handles().Close(close.handle);
  return SendPacket(connection->socket.get(),
                    WritePacket(lane::Closed(), lane::MessageKind::kClosed,
                                close.sequence, closed));
}

}  // namespace qgemm
