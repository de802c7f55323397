// SPDX-License-Identifier: Apache-2.0

#include "client/lane_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/passed_descriptors.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

using lane::MessageKind;

// A server that takes nothing for so long is gone.
constexpr absl::Duration kSendLimit = absl::Seconds(5);
constexpr int kDescriptors = 3;
// A wait for an answer that another thread is about to bring.
constexpr absl::Duration kAnswerOnItsWay = absl::Milliseconds(10);

absl::Status Failed(absl::string_view operation) {
  return absl::UnavailableError(
      absl::StrCat(operation, ": ", std::strerror(errno)));
}

template <typename Message>
std::string PacketOf(Message message, MessageKind kind, uint32_t sequence,
                     absl::string_view tail = "") {
  message.header.kind = kind;
  message.header.sequence = sequence;
  std::string packet(reinterpret_cast<const char*>(&message), sizeof(message));
  packet.append(tail.data(), tail.size());
  return packet;
}

// nullopt: the packet is too short to be one, or of another kind.
template <typename Message>
std::optional<Message> Read(absl::string_view packet, MessageKind kind) {
  Message message;
  if (packet.size() < sizeof(message)) return std::nullopt;
  std::memcpy(&message, packet.data(), sizeof(message));
  if (message.header.magic != lane::kMagic || message.header.kind != kind) {
    return std::nullopt;
  }
  return message;
}

// The status that a message has: its code, with the text behind it.
template <typename Message>
absl::Status StatusOf(const Message& message, absl::string_view packet) {
  if (message.header.code == 0) return absl::OkStatus();
  const absl::string_view text = packet.substr(sizeof(Message));
  return absl::Status(static_cast<absl::StatusCode>(message.header.code),
                      text.substr(0, message.text_bytes));
}

// With the descriptor `passed`, unless it is -1.
absl::Status Send(int descriptor, const std::string& packet, int passed = -1) {
  iovec part = {const_cast<char*>(packet.data()), packet.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  PassedDescriptors rights;
  rights.AddTo(&message, absl::MakeConstSpan(&passed, passed < 0 ? 0 : 1));
  const ssize_t sent = sendmsg(descriptor, &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(packet.size())) return absl::OkStatus();
  return Failed("send to the lane's server");
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the lane's path has ", path.size(), " bytes; a socket's has 1 to ",
        sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval limit = absl::ToTimeval(kSendLimit);
  if (!descriptor.valid() ||
      setsockopt(descriptor.get(), SOL_SOCKET, SO_SNDTIMEO, &limit,
                 sizeof(limit)) != 0 ||
      connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return Failed(absl::StrCat("connect to the lane ", path));
  }
  return descriptor;
}

absl::Status AwaitInput(int descriptor, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("the lane's server did not answer in time");
    }
    pollfd input = {descriptor, POLLIN, 0};
    const int milliseconds = static_cast<int>(
        std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 60'000));
    const int ready = poll(&input, 1, milliseconds);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Failed("wait for the lane");
  }
}

struct Received {
  std::string packet;  // empty: the server has hung up
  std::vector<FileDescriptor> descriptors;
};

absl::StatusOr<Received> Receive(int descriptor) {
  std::array<char, lane::kMaxPacketBytes> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))>
      control;
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size;
  do {
    size = recvmsg(descriptor, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return Failed("receive from the lane's server");
  Received received;
  received.packet.assign(bytes.data(), size);
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int passed;
      std::memcpy(&passed, CMSG_DATA(each) + i * sizeof(int), sizeof(passed));
      received.descriptors.emplace_back(passed);
    }
  }
  return received;
}

// The next packet, which comes by the deadline.
absl::StatusOr<Received> Await(int descriptor, absl::Time deadline) {
  RETURN_IF_ERROR(AwaitInput(descriptor, deadline));
  ASSIGN_OR_RETURN(Received received, Receive(descriptor));
  if (received.packet.empty()) {
    return absl::UnavailableError("the lane's server hung up");
  }
  if (const auto end = Read<lane::End>(received.packet, MessageKind::kEnd)) {
    RETURN_IF_ERROR(StatusOf(*end, received.packet));
    return absl::UnavailableError("the server ended the lane");
  }
  return received;
}

absl::Status IsNo(absl::string_view message, const Received& received) {
  return absl::InternalError(absl::StrCat("the lane's server answered ",
                                          received.packet.size(),
                                          " bytes that are no ", message));
}

// The number of the memory as a region.
absl::StatusOr<uint8_t> Attach(int descriptor, const DeviceOperands& memory,
                               absl::Time deadline) {
  lane::Attach attach;
  attach.bytes = memory.bytes;
  static_assert(sizeof(attach.device_uuid) == sizeof(memory.device_uuid), "");
  std::memcpy(attach.device_uuid, memory.device_uuid.data(),
              sizeof(attach.device_uuid));
  RETURN_IF_ERROR(Send(descriptor, PacketOf(attach, MessageKind::kAttach, 0),
                       memory.descriptor));
  ASSIGN_OR_RETURN(const Received received, Await(descriptor, deadline));
  const auto attached =
      Read<lane::Attached>(received.packet, MessageKind::kAttached);
  if (!attached.has_value()) return IsNo("kAttached", received);
  RETURN_IF_ERROR(StatusOf(*attached, received.packet));
  if (attached->region < 1 || attached->region > lane::kMaxRegions) {
    return IsNo("region", received);
  }
  return static_cast<uint8_t>(attached->region);
}

absl::Status CheckLength(absl::string_view field, size_t bytes, size_t most) {
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " has ", bytes, " bytes; a lane takes ", most, " at most"));
}

}  // namespace

absl::StatusOr<LaneSocket::Granted> LaneSocket::Connect(const std::string& path,
                                                        const Wanted& wanted,
                                                        absl::Time deadline) {
  RETURN_IF_ERROR(
      CheckLength("the token", wanted.token.size(), lane::kMaxTokenBytes));
  ASSIGN_OR_RETURN(FileDescriptor descriptor, ConnectTo(path));
  lane::Hello hello;
  hello.operand_bytes = wanted.operand_bytes;
  hello.slots = wanted.slots;
  hello.token_bytes = static_cast<uint32_t>(wanted.token.size());
  RETURN_IF_ERROR(Send(descriptor.get(),
                       PacketOf(hello, MessageKind::kHello, 0, wanted.token)));
  ASSIGN_OR_RETURN(Received received, Await(descriptor.get(), deadline));
  const auto accept = Read<lane::Accept>(received.packet, MessageKind::kAccept);
  if (!accept.has_value()) return IsNo("kAccept", received);
  RETURN_IF_ERROR(StatusOf(*accept, received.packet));
  if (received.descriptors.size() != kDescriptors) {
    return absl::InternalError(
        absl::StrCat("the lane's server passed ", received.descriptors.size(),
                     " descriptors; it must be ", kDescriptors));
  }
  Granted granted;
  for (const DeviceOperands& memory : wanted.device_operands) {
    ASSIGN_OR_RETURN(const uint8_t region,
                     Attach(descriptor.get(), memory, deadline));
    granted.regions.push_back(region);
  }
  granted.socket = absl::WrapUnique(new LaneSocket(std::move(descriptor)));
  granted.accept = *accept;
  granted.segment = std::move(received.descriptors[0]);
  granted.doorbell = std::move(received.descriptors[1]);
  granted.wake = std::move(received.descriptors[2]);
  return granted;
}

absl::StatusOr<uint32_t> LaneSocket::SendOpen(lane::HandleKind kind,
                                              absl::string_view name,
                                              absl::string_view client_id,
                                              OpenDone* done) {
  RETURN_IF_ERROR(CheckLength("the name", name.size(), lane::kMaxNameBytes));
  RETURN_IF_ERROR(
      CheckLength("client_id", client_id.size(), lane::kMaxNameBytes));
  RETURN_IF_ERROR(end_);
  lane::Open message;
  message.kind = kind;
  message.name_bytes = static_cast<uint32_t>(name.size());
  message.client_id_bytes = static_cast<uint32_t>(client_id.size());
  const uint32_t sequence = ++sequence_;
  RETURN_IF_ERROR(
      Send(descriptor_.get(), PacketOf(message, MessageKind::kOpen, sequence,
                                       absl::StrCat(name, client_id))));
  pending_.emplace(sequence, std::move(*done));
  return sequence;
}

absl::StatusOr<lane::Opened> LaneSocket::Open(lane::HandleKind kind,
                                              absl::string_view name,
                                              absl::string_view client_id,
                                              absl::Time deadline) {
  std::optional<absl::StatusOr<lane::Opened>> answer;
  OpenDone done = [&](const absl::StatusOr<lane::Opened>& opened) {
    MutexLock lock(&mutex_);
    answer = opened;
    changed_.SignalAll();
  };
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const uint32_t sequence,
                   SendOpen(kind, name, client_id, &done));
  while (!answer.has_value()) {
    const absl::Duration left = deadline - absl::Now();
    // Whoever took it out of the list is about to bring the answer.
    if (left <= absl::ZeroDuration() && pending_.erase(sequence) > 0) {
      return absl::DeadlineExceededError(
          "the call's deadline passed while the lane opened what it names");
    }
    changed_.WaitFor(&mutex_, std::max(left, kAnswerOnItsWay));
  }
  return *std::move(answer);
}

void LaneSocket::OpenLater(lane::HandleKind kind, absl::string_view name,
                           absl::string_view client_id, OpenDone done) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = SendOpen(kind, name, client_id, &done).status();
  }
  if (!status.ok()) done(status);
}

void LaneSocket::Close(uint32_t handle) {
  MutexLock lock(&mutex_);
  SendClose(handle);
}

void LaneSocket::SendClose(uint32_t handle) {
  if (!end_.ok()) return;
  lane::Close message;
  message.handle = handle;
  // A lane that does not take it has ended, which Serve sees.
  (void)Send(descriptor_.get(),
             PacketOf(message, MessageKind::kClose, ++sequence_));
}

absl::Status LaneSocket::Serve() {
  absl::Status end;
  while (end.ok()) {
    const absl::StatusOr<Received> received = Receive(descriptor_.get());
    if (!received.ok()) {
      end = received.status();
    } else if (received->packet.empty()) {
      end = absl::UnavailableError("the lane's server hung up");
    } else {
      end = Take(received->packet);
    }
  }
  std::map<uint32_t, OpenDone> unanswered;
  {
    MutexLock lock(&mutex_);
    end_ = end;
    unanswered.swap(pending_);
  }
  for (auto& [sequence, done] : unanswered) done(end);
  return end;
}

absl::Status LaneSocket::Take(absl::string_view packet) {
  if (const auto end = Read<lane::End>(packet, MessageKind::kEnd)) {
    return absl::UnavailableError(
        absl::StrCat("the server ended the lane: ",
                     packet.substr(sizeof(*end), end->text_bytes)));
  }
  if (const auto opened = Read<lane::Opened>(packet, MessageKind::kOpened)) {
    TakeOpened(*opened, packet);
    return absl::OkStatus();
  }
  if (Read<lane::Closed>(packet, MessageKind::kClosed).has_value()) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the lane's server sent ", packet.size(),
                   " bytes that are no message; the lane is given up"));
}

void LaneSocket::TakeOpened(const lane::Opened& opened,
                            absl::string_view packet) {
  const absl::Status status = StatusOf(opened, packet);
  OpenDone done;
  {
    MutexLock lock(&mutex_);
    const auto found = pending_.find(opened.header.sequence);
    if (found == pending_.end()) {  // its deadline has passed
      if (status.ok()) SendClose(opened.handle);
      return;
    }
    done = std::move(found->second);
    pending_.erase(found);
  }
  if (status.ok()) {
    done(opened);
  } else {
    done(status);
  }
}

void LaneSocket::HangUp() { shutdown(descriptor_.get(), SHUT_RDWR); }

}  // namespace qgemm
