// SPDX-License-Identifier: Apache-2.0
//
// A lane's client that sends what it is told, right or wrong.

#ifndef QGEMM_TESTS_LANE_RAW_LANE_H_
#define QGEMM_TESTS_LANE_RAW_LANE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "lane/messages.h"
#include "lane/segment.h"

namespace qgemm {

// A message of the server's and its text.
template <typename Message>
struct LaneReply {
  Message message;
  std::string text;

  uint32_t code() const { return message.header.code; }
  bool ok() const { return code() == 0; }
};

// For one thread, but for the segment's words.
class RawLane {
 public:
  // Connects, and says nothing.
  explicit RawLane(const std::string& path);
  RawLane(const RawLane&) = delete;
  RawLane& operator=(const RawLane&) = delete;
  ~RawLane();

  // Opens the lane; maps it if the server accepts.
  LaneReply<lane::Accept> Hello(uint64_t operand_bytes, uint32_t slots = 0,
                                const std::string& token = "");
  LaneReply<lane::Opened> Open(lane::HandleKind kind, absl::string_view name,
                               absl::string_view client_id = "");
  LaneReply<lane::Closed> Close(uint32_t handle);

  // Any packet; false if the server has hung up.
  bool Send(const std::string& packet);
  // The next packet of the server; nullopt once it has hung up.
  std::optional<std::string> Receive();
  // Reads on until the server hangs up; the message that it ended the lane
  // with, if there was one.
  std::optional<LaneReply<lane::End>> WaitForEnd();
  void HangUp() { socket_.Reset(); }

  const lane::Accept& layout() const { return accept_; }
  uint8_t* segment() const { return segment_; }
  lane::SegmentHead& head() const { return *At<lane::SegmentHead>(0); }
  lane::RequestEntry* requests() const {
    return At<lane::RequestEntry>(accept_.requests_offset);
  }
  lane::Completion& completion(uint32_t slot) const {
    return At<lane::Completion>(accept_.completions_offset)[slot];
  }
  lane::DoneWord& done_word(uint64_t position) const {
    return At<lane::DoneWord>(
        accept_.done_words_offset)[position % accept_.slots];
  }
  uint8_t* operands() const { return segment_ + accept_.operands_offset; }
  int memory_fd() const { return memory_.get(); }
  int doorbell_fd() const { return doorbell_.get(); }

  // Attaches memory of a GPU of UUID zero; `descriptor` is -1: without one.
  LaneReply<lane::Attached> Attach(int descriptor, uint64_t bytes);

  // Publishes a request and rings if the server sleeps.
  void Publish(const lane::RequestEntry& entry);
  void Ring();

  // Sleeps on the slot's word until it shows the cookie; false if the lane ends
  // first.
  bool WaitForSlot(uint32_t slot, uint32_t cookie);
  // Sleeps on the wake socket for completion number `position`; its slot, or
  // nullopt if the lane ends first.
  std::optional<uint32_t> WaitForDone(uint64_t position);
  // Publishes and waits.
  bool Call(const lane::RequestEntry& entry) {
    Publish(entry);
    return WaitForSlot(entry.slot, entry.cookie);
  }
  std::string MessageOf(uint32_t slot) const {
    const lane::Completion& ended = completion(slot);
    return std::string(ended.message, ended.message_bytes);
  }

 private:
  template <typename Part>
  Part* At(uint64_t offset) const {
    return reinterpret_cast<Part*>(segment_ + offset);
  }

  FileDescriptor socket_;
  FileDescriptor memory_;
  FileDescriptor doorbell_;
  FileDescriptor wake_;
  lane::Accept accept_;
  uint8_t* segment_ = nullptr;
  uint64_t published_ = 0;
};

// The bytes of a client's packet.
template <typename Message>
std::string ToPacket(const Message& message, absl::string_view rest = "") {
  std::string packet(reinterpret_cast<const char*>(&message), sizeof(message));
  packet.append(rest.data(), rest.size());
  return packet;
}

lane::Hello MakeHello(uint64_t operand_bytes, uint32_t slots = 0);

}  // namespace qgemm

#endif  // QGEMM_TESTS_LANE_RAW_LANE_H_
