// SPDX-License-Identifier: Apache-2.0

#include "tests/client/fake_lane.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/host_device.h"
#include "base/passed_descriptors.h"
#include "lane/doorbell.h"

namespace qgemm {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t TakePart(uint64_t bytes, uint64_t* end) {
  const uint64_t begin = *end;
  *end = RoundUp(begin + bytes, kPage);
  return begin;
}

template <typename Message>
std::string PacketOf(Message message, lane::MessageKind kind,
                     const absl::Status& status, uint32_t sequence) {
  message.header.kind = kind;
  message.header.sequence = sequence;
  message.header.code = static_cast<uint32_t>(status.code());
  message.text_bytes = static_cast<uint32_t>(status.message().size());
  std::string packet(reinterpret_cast<const char*>(&message), sizeof(message));
  return absl::StrCat(packet, status.message());
}

void SendPacket(int socket, const std::string& packet,
                const std::vector<int>& descriptors = {}) {
  iovec part = {const_cast<char*>(packet.data()), packet.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  PassedDescriptors passed;
  passed.AddTo(&message, descriptors);
  (void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

template <typename Message>
Message Read(const std::string& packet) {
  Message message;
  CHECK_GE(packet.size(), sizeof(message));
  std::memcpy(&message, packet.data(), sizeof(message));
  return message;
}

// With the descriptor that came with it, if one did.
std::string Receive(int socket, FileDescriptor* passed) {
  std::string packet(lane::kMaxPacketBytes, '\0');
  iovec part = {packet.data(), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  packet.resize(std::max<ssize_t>(size, 0));
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (size > 0 && rights != nullptr) {
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(descriptor));
    passed->Reset(descriptor);
  }
  return packet;
}

uint8_t* Map(int descriptor, uint64_t bytes) {
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  CHECK(base != MAP_FAILED);
  return static_cast<uint8_t*>(base);
}

}  // namespace

// One lane; of its thread, but for the descriptors, which stay open.
struct FakeLane::LaneState {
  ~LaneState() {
    if (base != nullptr) munmap(base, accept.segment_bytes);
    for (const auto& each : attached) munmap(each.data(), each.size());
  }

  // Memory that a request's offsets count in.
  absl::Span<uint8_t> Region(uint8_t number) {
    if (number > 0) return attached.at(number - 1);
    return absl::MakeSpan(base + accept.operands_offset, accept.operands_bytes);
  }

  lane::SegmentHead& head() {
    return *reinterpret_cast<lane::SegmentHead*>(base);
  }

  FileDescriptor socket;
  FileDescriptor doorbell;
  FileDescriptor wake;
  FileDescriptor command;  // an eventfd: look at the gate and at what ends
  lane::Accept accept;
  uint8_t* base = nullptr;
  std::vector<absl::Span<uint8_t>> attached;
  uint64_t taken = 0;
  uint64_t completed = 0;
  uint32_t next_handle = 7;
  std::map<uint32_t, Handle> handles;
  std::vector<Request> waiting;  // at the gate
  std::thread thread;
};

FakeLane::FakeLane() {
  char folder[] = "/tmp/qgemm_lane_XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  folder_ = folder;
  path_ = absl::StrCat(folder_, "/lane.sock");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  CHECK_LT(path_.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  CHECK_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                sizeof(address)),
           0);
  CHECK_EQ(listen(listener_.get(), 16), 0);
  acceptor_ = std::thread([this] { AcceptLanes(); });
}

FakeLane::~FakeLane() {
  OpenGate();
  ReleaseOpens();
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::unique_ptr<LaneState>> lanes;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    lanes.swap(lanes_);
  }
  for (const auto& each : lanes) shutdown(each->socket.get(), SHUT_RDWR);
  for (const auto& each : lanes) each->thread.join();
  unlink(path_.c_str());
  rmdir(folder_.c_str());
}

void FakeLane::AcceptLanes() {
  while (true) {
    const int connected =
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (connected < 0) return;
    auto state = std::make_unique<LaneState>();
    state->socket.Reset(connected);
    state->command.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    LaneState* const lane = state.get();
    MutexLock lock(&mutex_);
    lane->thread = std::thread([this, lane] { Serve(lane); });
    lanes_.push_back(std::move(state));
  }
}

bool FakeLane::Greet(LaneState* state) {
  FileDescriptor none;
  const std::string packet = Receive(state->socket.get(), &none);
  if (packet.empty()) return false;
  const auto hello = Read<lane::Hello>(packet);
  absl::Status refusal;
  std::function<void(lane::Accept*)> edit;
  {
    MutexLock lock(&mutex_);
    token_ = packet.substr(sizeof(hello), hello.token_bytes);
    refusal = refusal_;
    edit = grant_edit_;
  }
  if (!refusal.ok()) {
    SendPacket(state->socket.get(),
               PacketOf(lane::Accept(), lane::MessageKind::kAccept, refusal,
                        hello.header.sequence));
    return false;
  }
  lane::Accept& accept = state->accept;
  accept.slots = lane::kMinSlots;
  while (accept.slots < hello.slots) accept.slots *= 2;
  uint64_t end = kPage;
  accept.requests_offset =
      TakePart(accept.slots * sizeof(lane::RequestEntry), &end);
  accept.completions_offset =
      TakePart(accept.slots * sizeof(lane::Completion), &end);
  accept.done_words_offset =
      TakePart(accept.slots * sizeof(lane::DoneWord), &end);
  accept.operands_bytes = RoundUp(hello.operand_bytes, kPage);
  accept.operands_offset = TakePart(accept.operands_bytes, &end);
  accept.segment_bytes = end;
  const FileDescriptor memory(
      memfd_create("lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK_EQ(ftruncate(memory.get(), accept.segment_bytes), 0);
  CHECK_EQ(fcntl(memory.get(), F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
           0);
  state->base = Map(memory.get(), accept.segment_bytes);
  state->doorbell.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int ends[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                      ends),
           0);
  state->wake.Reset(ends[0]);
  const FileDescriptor client_wake(ends[1]);
  lane::Accept told = accept;
  if (edit != nullptr) edit(&told);
  SendPacket(state->socket.get(),
             PacketOf(told, lane::MessageKind::kAccept, absl::OkStatus(),
                      hello.header.sequence),
             {memory.get(), state->doorbell.get(), client_wake.get()});
  return true;
}

void FakeLane::Serve(LaneState* state) {
  if (!Greet(state)) {
    shutdown(state->socket.get(), SHUT_RDWR);
    return;
  }
  const auto has_requests = [state] {
    return state->head().published.load() != state->taken;
  };
  while (true) {
    TakeRequests(state);
    AnswerReady(state);
    if (!lane::FallAsleep(state->head().server_sleeps, has_requests)) continue;
    pollfd inputs[3] = {{state->socket.get(), POLLIN, 0},
                        {state->doorbell.get(), POLLIN, 0},
                        {state->command.get(), POLLIN, 0}};
    (void)poll(inputs, 3, -1);
    lane::StayAwake(state->head().server_sleeps);
    uint64_t count;
    (void)!read(state->doorbell.get(), &count, sizeof(count));
    (void)!read(state->command.get(), &count, sizeof(count));
    if (inputs[0].revents != 0 && !TakeMessage(state)) break;
  }
  {
    MutexLock lock(&mutex_);
    at_gate_ -= static_cast<int>(state->waiting.size());
  }
  state->head().ended.store(
      static_cast<uint32_t>(absl::StatusCode::kCancelled));
}

bool FakeLane::TakeMessage(LaneState* state) {
  FileDescriptor passed;
  const std::string packet = Receive(state->socket.get(), &passed);
  if (packet.empty()) return false;
  const auto header = Read<lane::MessageHeader>(packet);
  if (header.kind == lane::MessageKind::kOpen) {
    Open(state, packet);
    return true;
  }
  if (header.kind == lane::MessageKind::kAttach) {
    Attach(state, packet, std::move(passed));
    return true;
  }
  CHECK(header.kind == lane::MessageKind::kClose);
  const uint32_t number = Read<lane::Close>(packet).handle;
  const auto found = state->handles.find(number);
  CHECK(found != state->handles.end()) << number;
  {
    MutexLock lock(&mutex_);
    handle_log_.push_back(absl::StrCat("-", found->second.name));
  }
  state->handles.erase(found);
  SendPacket(state->socket.get(),
             PacketOf(lane::Closed(), lane::MessageKind::kClosed,
                      absl::OkStatus(), header.sequence));
  return true;
}

void FakeLane::Open(LaneState* state, const std::string& packet) {
  const auto open = Read<lane::Open>(packet);
  Handle handle;
  handle.kind = open.kind;
  handle.name = packet.substr(sizeof(open), open.name_bytes);
  handle.client_id =
      packet.substr(sizeof(open) + open.name_bytes, open.client_id_bytes);
  lane::Opened opened;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    while (holds_opens_) changed_.Wait(&mutex_);
    const auto shape = shapes_.find(handle.name);
    if (shape == shapes_.end()) {
      status = absl::NotFoundError(absl::StrCat("no ", handle.name));
    } else if (static_cast<int>(state->handles.size()) >= max_handles_) {
      status = absl::ResourceExhaustedError("too many handles");
    } else {
      const bool program = open.kind == lane::HandleKind::kProgram;
      opened.kind = open.kind;
      opened.handle = state->next_handle;
      (program ? opened.input_row_bytes : opened.k) = shape->second.a_row;
      (program ? opened.output_row_bytes : opened.n) = shape->second.c_row;
      handle_log_.push_back(absl::StrCat("+", handle.name));
    }
  }
  if (status.ok()) state->handles[state->next_handle++] = handle;
  SendPacket(state->socket.get(), PacketOf(opened, lane::MessageKind::kOpened,
                                           status, open.header.sequence));
}

void FakeLane::Attach(LaneState* state, const std::string& packet,
                      FileDescriptor memory) {
  const auto attach = Read<lane::Attach>(packet);
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = attach_status_;
  }
  lane::Attached attached;
  if (status.ok()) {
    state->attached.push_back(
        absl::MakeSpan(Map(memory.get(), attach.bytes), attach.bytes));
    attached.region = static_cast<uint32_t>(state->attached.size());
  }
  SendPacket(state->socket.get(),
             PacketOf(attached, lane::MessageKind::kAttached, status,
                      attach.header.sequence));
}

void FakeLane::TakeRequests(LaneState* state) {
  const uint64_t published = state->head().published.load();
  const auto* const ring = reinterpret_cast<const lane::RequestEntry*>(
      state->base + state->accept.requests_offset);
  CHECK_LE(published - state->taken, state->accept.slots);
  for (; state->taken != published; ++state->taken) {
    Request request;
    request.entry = ring[state->taken % state->accept.slots];
    const lane::RequestEntry& entry = request.entry;
    CHECK_EQ(entry.a_offset % lane::kOperandAlignment, 0u);
    CHECK_EQ(entry.c_offset % lane::kOperandAlignment, 0u);
    const absl::Span<uint8_t> a = state->Region(entry.a_region);
    const absl::Span<uint8_t> c = state->Region(entry.c_region);
    CHECK_LE(entry.a_offset + entry.a_bytes, a.size());
    CHECK_LE(entry.c_offset + entry.c_bytes, c.size());
    CHECK_LT(entry.slot, state->accept.slots);
    const auto handle = state->handles.find(entry.handle);
    CHECK(handle != state->handles.end()) << entry.handle;
    request.kind = handle->second.kind;
    request.name = handle->second.name;
    request.client_id = handle->second.client_id;
    request.a = a.subspan(entry.a_offset, entry.a_bytes);
    request.c = c.subspan(entry.c_offset, entry.c_bytes);
    state->waiting.push_back(request);
    MutexLock lock(&mutex_);
    ++requests_;
    ++at_gate_;
    last_request_ = request;
    changed_.SignalAll();
  }
}

void FakeLane::AnswerReady(LaneState* state) {
  {
    MutexLock lock(&mutex_);
    if (!gate_open_) return;
    at_gate_ -= static_cast<int>(state->waiting.size());
  }
  std::vector<Request> ready;
  ready.swap(state->waiting);
  for (const Request& request : ready) Complete(state, request);
}

void FakeLane::Complete(LaneState* state, const Request& request) {
  Handler handler;
  {
    MutexLock lock(&mutex_);
    handler = handler_;
  }
  Answer answer;
  if (handler != nullptr) {
    answer = handler(request);
  } else {
    for (size_t i = 0; i < request.c.size(); ++i) {
      request.c[i] = request.a[i % request.a.size()];
    }
  }
  // C is written before whoever calls last_request from now on looks at it, in
  // TSan's eyes too, to which the cookie of another mapping is another.
  { const MutexLock lock(&mutex_); }
  lane::Completion& completion = reinterpret_cast<lane::Completion*>(
      state->base + state->accept.completions_offset)[request.entry.slot];
  CHECK_NE(completion.cookie.load(), request.entry.cookie);
  completion.code = static_cast<uint32_t>(answer.status.code());
  completion.kernel_ns = answer.kernel_ns;
  completion.message_bytes = static_cast<uint32_t>(
      std::min<size_t>(answer.status.message().size(), lane::kMaxMessageBytes));
  answer.status.message().copy(completion.message, completion.message_bytes);
  completion.retry_delay_ns = absl::ToInt64Nanoseconds(answer.retry_delay);
  completion.cookie.store(request.entry.cookie);
  if (lane::MustWake(completion.sleeps)) {
    syscall(SYS_futex, &completion.cookie, FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
  }
  const uint64_t position = state->completed++;
  reinterpret_cast<lane::DoneWord*>(
      state->base +
      state->accept.done_words_offset)[position % state->accept.slots]
      .store(
          lane::DoneWordOf(position, state->accept.slots, request.entry.slot));
  if (!lane::MustWake(state->head().client_sleeps)) return;
  const uint64_t packet = 1;
  (void)send(state->wake.get(), &packet, sizeof(packet), MSG_NOSIGNAL);
}

void FakeLane::KickLanes() {
  const uint64_t one = 1;
  for (const auto& each : lanes_) {
    (void)!write(each->command.get(), &one, sizeof(one));
  }
}

void FakeLane::EndLanes(absl::string_view reason) {
  lane::End end;
  MutexLock lock(&mutex_);
  for (const auto& each : lanes_) {
    SendPacket(each->socket.get(), PacketOf(end, lane::MessageKind::kEnd,
                                            absl::UnavailableError(reason), 0));
    shutdown(each->socket.get(), SHUT_RDWR);
  }
}

void FakeLane::DropLanes() {
  MutexLock lock(&mutex_);
  for (const auto& each : lanes_) shutdown(each->socket.get(), SHUT_RDWR);
}

void FakeLane::set_attach_status(absl::Status status) {
  MutexLock lock(&mutex_);
  attach_status_ = std::move(status);
}

void FakeLane::set_handler(Handler handler) {
  MutexLock lock(&mutex_);
  handler_ = std::move(handler);
}

void FakeLane::set_shape(const std::string& name, Shape shape) {
  MutexLock lock(&mutex_);
  shapes_[name] = shape;
}

void FakeLane::set_refusal(absl::Status refusal) {
  MutexLock lock(&mutex_);
  refusal_ = std::move(refusal);
}

void FakeLane::set_grant_edit(std::function<void(lane::Accept*)> edit) {
  MutexLock lock(&mutex_);
  grant_edit_ = std::move(edit);
}

void FakeLane::set_max_handles(int count) {
  MutexLock lock(&mutex_);
  max_handles_ = count;
}

void FakeLane::CloseGate() {
  MutexLock lock(&mutex_);
  gate_open_ = false;
}

void FakeLane::OpenGate() {
  MutexLock lock(&mutex_);
  gate_open_ = true;
  KickLanes();
}

void FakeLane::AwaitAtGate(int count) {
  MutexLock lock(&mutex_);
  while (at_gate_ < count) changed_.Wait(&mutex_);
}

void FakeLane::HoldOpens() {
  MutexLock lock(&mutex_);
  holds_opens_ = true;
}

void FakeLane::ReleaseOpens() {
  MutexLock lock(&mutex_);
  holds_opens_ = false;
  changed_.SignalAll();
}

int FakeLane::lanes() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(lanes_.size());
}

int FakeLane::requests() const {
  MutexLock lock(&mutex_);
  return requests_;
}

std::vector<std::string> FakeLane::handle_log() const {
  MutexLock lock(&mutex_);
  return handle_log_;
}

std::string FakeLane::token() const {
  MutexLock lock(&mutex_);
  return token_;
}

FakeLane::Request FakeLane::last_request() const {
  MutexLock lock(&mutex_);
  return last_request_;
}

}  // namespace qgemm
