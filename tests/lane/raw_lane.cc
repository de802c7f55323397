// SPDX-License-Identifier: Apache-2.0

#include "tests/lane/raw_lane.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/passed_descriptors.h"
#include "lane/doorbell.h"

namespace qgemm {
namespace {

// A sleep's bound: the server may be gone.
constexpr int kSleepMs = 50;

template <typename Message>
LaneReply<Message> ToReply(const std::string& packet) {
  LaneReply<Message> reply;
  CHECK_GE(packet.size(), sizeof(Message));
  std::memcpy(&reply.message, packet.data(), sizeof(Message));
  reply.text = packet.substr(sizeof(Message));
  CHECK_EQ(reply.text.size(), reply.message.text_bytes);
  return reply;
}

lane::MessageKind KindOf(const std::string& packet) {
  lane::MessageHeader header;
  CHECK_GE(packet.size(), sizeof(header));
  std::memcpy(&header, packet.data(), sizeof(header));
  return header.kind;
}

}  // namespace

lane::Hello MakeHello(uint64_t operand_bytes, uint32_t slots) {
  lane::Hello hello;
  hello.header.kind = lane::MessageKind::kHello;
  hello.operand_bytes = operand_bytes;
  hello.slots = slots;
  return hello;
}

RawLane::RawLane(const std::string& path)
    : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  CHECK_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  CHECK_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
           0)
      << path << ": " << std::strerror(errno);
}

RawLane::~RawLane() {
  if (segment_ != nullptr) munmap(segment_, accept_.segment_bytes);
}

LaneReply<lane::Accept> RawLane::Hello(uint64_t operand_bytes, uint32_t slots,
                                       const std::string& token) {
  lane::Hello hello = MakeHello(operand_bytes, slots);
  hello.token_bytes = static_cast<uint32_t>(token.size());
  Send(ToPacket(hello, token));
  char bytes[lane::kMaxPacketBytes];
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  CHECK_GT(size, 0) << std::strerror(errno);
  auto reply = ToReply<lane::Accept>(std::string(bytes, size));
  CHECK(reply.message.header.kind == lane::MessageKind::kAccept);
  if (!reply.ok()) return reply;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  CHECK(header != nullptr && header->cmsg_len == CMSG_LEN(3 * sizeof(int)));
  int descriptors[3];
  std::memcpy(descriptors, CMSG_DATA(header), sizeof(descriptors));
  memory_.Reset(descriptors[0]);
  doorbell_.Reset(descriptors[1]);
  wake_.Reset(descriptors[2]);
  accept_ = reply.message;
  void* const mapped =
      mmap(nullptr, accept_.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
           memory_.get(), 0);
  CHECK(mapped != MAP_FAILED) << std::strerror(errno);
  segment_ = static_cast<uint8_t*>(mapped);
  return reply;
}

LaneReply<lane::Opened> RawLane::Open(lane::HandleKind kind,
                                      absl::string_view name,
                                      absl::string_view client_id) {
  lane::Open open;
  open.header.kind = lane::MessageKind::kOpen;
  open.kind = kind;
  open.name_bytes = static_cast<uint32_t>(name.size());
  open.client_id_bytes = static_cast<uint32_t>(client_id.size());
  CHECK(Send(ToPacket(open, absl::StrCat(name, client_id))));
  const std::optional<std::string> packet = Receive();
  CHECK(packet.has_value() && KindOf(*packet) == lane::MessageKind::kOpened);
  return ToReply<lane::Opened>(*packet);
}

LaneReply<lane::Closed> RawLane::Close(uint32_t handle) {
  lane::Close close;
  close.header.kind = lane::MessageKind::kClose;
  close.handle = handle;
  CHECK(Send(ToPacket(close)));
  const std::optional<std::string> packet = Receive();
  CHECK(packet.has_value() && KindOf(*packet) == lane::MessageKind::kClosed);
  return ToReply<lane::Closed>(*packet);
}

LaneReply<lane::Attached> RawLane::Attach(int descriptor, uint64_t bytes) {
  lane::Attach attach;
  attach.header.kind = lane::MessageKind::kAttach;
  attach.bytes = bytes;
  iovec part = {&attach, sizeof(attach)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  PassedDescriptors passed;
  passed.AddTo(&message,
               absl::MakeConstSpan(&descriptor, descriptor < 0 ? 0 : 1));
  CHECK_GT(sendmsg(socket_.get(), &message, MSG_NOSIGNAL), 0);
  const std::optional<std::string> packet = Receive();
  CHECK(packet.has_value() && KindOf(*packet) == lane::MessageKind::kAttached);
  return ToReply<lane::Attached>(*packet);
}

bool RawLane::Send(const std::string& packet) {
  return send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) >= 0;
}

std::optional<std::string> RawLane::Receive() {
  char bytes[lane::kMaxPacketBytes];
  const ssize_t size = recv(socket_.get(), bytes, sizeof(bytes), 0);
  if (size <= 0) return std::nullopt;
  return std::string(bytes, size);
}

std::optional<LaneReply<lane::End>> RawLane::WaitForEnd() {
  std::optional<LaneReply<lane::End>> end;
  while (const std::optional<std::string> packet = Receive()) {
    if (KindOf(*packet) == lane::MessageKind::kEnd) {
      end = ToReply<lane::End>(*packet);
    }
  }
  return end;
}

void RawLane::Publish(const lane::RequestEntry& entry) {
  // Word by word, as the server reads it: tests have other threads write there.
  uint64_t words[sizeof(entry) / sizeof(uint64_t)];
  std::memcpy(words, &entry, sizeof(entry));
  auto* const shared = reinterpret_cast<std::atomic<uint64_t>*>(
      requests() + published_ % accept_.slots);
  for (size_t i = 0; i < std::size(words); ++i) {
    shared[i].store(words[i], std::memory_order_relaxed);
  }
  head().published.store(++published_);
  if (lane::MustWake(head().server_sleeps)) Ring();
}

void RawLane::Ring() {
  const uint64_t one = 1;
  CHECK_EQ(write(doorbell_.get(), &one, sizeof(one)),
           static_cast<ssize_t>(sizeof(one)));
}

bool RawLane::WaitForSlot(uint32_t slot, uint32_t cookie) {
  lane::Completion& waited = completion(slot);
  while (true) {
    const uint32_t seen = waited.cookie.load();
    if (seen == cookie) return true;
    if (head().ended.load() != 0) return waited.cookie.load() == cookie;
    const auto has_news = [&] {
      return waited.cookie.load() != seen || head().ended.load() != 0;
    };
    if (!lane::FallAsleep(waited.sleeps, has_news)) continue;
    const timespec timeout = {0, kSleepMs * 1000000};
    syscall(SYS_futex, &waited.cookie, FUTEX_WAIT, seen, &timeout, nullptr, 0);
    lane::StayAwake(waited.sleeps);
  }
}

std::optional<uint32_t> RawLane::WaitForDone(uint64_t position) {
  lane::DoneWord& word = done_word(position);
  const uint64_t lap = lane::DoneWordOf(position, accept_.slots, 0) >> 32;
  while (true) {
    const uint64_t seen = word.load();
    if (seen >> 32 == lap) return static_cast<uint32_t>(seen);
    if (head().ended.load() != 0) return std::nullopt;
    const auto has_news = [&] {
      return word.load() != seen || head().ended.load() != 0;
    };
    if (!lane::FallAsleep(head().client_sleeps, has_news)) continue;
    pollfd waited = {wake_.get(), POLLIN, 0};
    poll(&waited, 1, kSleepMs);
    lane::StayAwake(head().client_sleeps);
    uint64_t wake;
    while (recv(wake_.get(), &wake, sizeof(wake), MSG_DONTWAIT) > 0) {
    }
  }
}

}  // namespace qgemm
