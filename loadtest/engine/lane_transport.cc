// SPDX-License-Identifier: Apache-2.0
//
// Calls that end on the lane's thread, as a frontend of many clients makes
// them. Operands lie in the lane's memory, or on the GPU, as far as there is
// room: a frontend computes there.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "lane/segment.h"
#include "loadtest/engine/device_room.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {
namespace {

// Room for the operands of a transport. Those of messages take a half at most,
// so that the others and answers still go by the lane.
constexpr int64_t kOperandBytes = int64_t{64} << 20;

class LaneTransport final : public Transport {
 public:
  // Each slot is a client of its own, of that name and its number; no clients
  // if the name is empty.
  // `room` is null if operands lie in the lane's own memory.
  LaneTransport(const MessageSet* messages, std::unique_ptr<Client> client,
                std::shared_ptr<DeviceRoom> room, int slots,
                const std::string& name, RequestSink* sink)
      : messages_(messages),
        sink_(sink),
        room_(std::move(room)),
        client_(std::move(client)),
        slots_(slots),
        answer_bytes_(messages->size()) {
    PlaceOperands();
    if (name.empty()) return;
    for (int slot = 0; slot < slots; ++slot) {
      slots_[slot].client_id = absl::StrCat(name, "-", slot);
    }
  }

  // The end of the last call may be on its way out.
  ~LaneTransport() override { client_.reset(); }

  void Start(int number, int message, absl::Duration timeout) override {
    const absl::Time deadline = timeout < absl::InfiniteDuration()
                                    ? absl::Now() + timeout
                                    : absl::InfiniteFuture();
    const absl::Span<uint8_t> answer = AnswerMemory(message, &slots_[number]);
    MutexLock lock(&slots_[number].mutex);
    slots_[number].call = messages_->is_run(message)
                              ? StartRun(number, message, deadline, answer)
                              : StartGemm(number, message, deadline, answer);
  }

  void Cancel(int slot) override {
    MutexLock lock(&slots_[slot].mutex);
    slots_[slot].call.Cancel();
  }

 private:
  struct Slot {
    std::string client_id;
    OperandBuffer answer;
    OperandBuffer last_answer;
    Mutex mutex;
    CallHandle call ABSL_GUARDED_BY(mutex);
  };

  // The place at which the set has a message's operand.
  absl::Span<const uint8_t> MessageOperand(int message) const {
    return messages_->is_run(message) ? messages_->run(message).inputs.front()
                                      : messages_->gemm(message).a;
  }

  absl::StatusOr<OperandBuffer> Allocate(int64_t bytes) {
    return room_ != nullptr ? room_->Allocate(bytes)
                            : client_->AllocateOperands(bytes);
  }

  // Puts the operands of messages, which may share them, into the lane.
  void PlaceOperands() {
    int64_t left = kOperandBytes / 2;
    std::map<const uint8_t*, OperandBuffer*> placed;
    for (int number = 0; number < messages_->size(); ++number) {
      const absl::Span<const uint8_t> operand = MessageOperand(number);
      OperandBuffer*& buffer = placed[operand.data()];
      if (buffer == nullptr) {
        buffer = &operands_.emplace_back(Placed(operand, left));
        left -= static_cast<int64_t>(buffer->bytes().size());
      }
      operand_of_.push_back(buffer);
    }
  }

  // The operand in the lane; empty if there is no room for it.
  OperandBuffer Placed(absl::Span<const uint8_t> operand, int64_t room) {
    const auto bytes = static_cast<int64_t>(operand.size());
    if (bytes > room) return OperandBuffer();
    auto allocated = Allocate(bytes);
    if (!allocated.ok()) return OperandBuffer();
    if (room_ == nullptr) {
      absl::c_copy(operand, allocated->bytes().begin());
    } else if (!room_->CopyIn(operand, allocated->bytes().data()).ok()) {
      return OperandBuffer();
    }
    return *std::move(allocated);
  }

  // The operand where it lies in the lane, or where the message has it.
  absl::Span<const uint8_t> OperandOf(int message) const {
    const absl::Span<uint8_t> placed = operand_of_[message]->bytes();
    return placed.empty() ? MessageOperand(message) : placed;
  }

  // Memory of the lane for the message's answer, other than that of the last
  // one, which is perhaps still read; empty if its size is not known yet, or
  // there is no room.
  absl::Span<uint8_t> AnswerMemory(int message, Slot* slot) {
    const size_t bytes = answer_bytes_[message].load(std::memory_order_relaxed);
    if (bytes == 0) return {};
    std::swap(slot->answer, slot->last_answer);
    if (slot->answer.bytes().size() < bytes) {
      slot->answer = OperandBuffer();
      auto allocated = Allocate(static_cast<int64_t>(bytes));
      if (!allocated.ok()) return {};
      slot->answer = *std::move(allocated);
    }
    return slot->answer.bytes().first(bytes);
  }

  CallHandle StartGemm(int number, int message, absl::Time deadline,
                       absl::Span<uint8_t> answer) {
    GemmRequest gemm = messages_->gemm(message);
    gemm.client_id = slots_[number].client_id;
    gemm.deadline = deadline;
    gemm.a = OperandOf(message);
    gemm.a_released = [] {};
    gemm.c = answer;
    return client_->GemmAsync(
        gemm, [=](const absl::StatusOr<GemmResult>& result) {
          End(number, message, answer, result,
              [](const GemmResult& r) { return absl::string_view(r.c); });
        });
  }

  CallHandle StartRun(int number, int message, absl::Time deadline,
                      absl::Span<uint8_t> answer) {
    RunRequest run = messages_->run(message);
    run.client_id = slots_[number].client_id;
    run.deadline = deadline;
    run.inputs.assign(1, OperandOf(message));
    run.inputs_released = [] {};
    if (!answer.empty()) run.outputs.assign(1, answer);
    return client_->RunAsync(run, [=](const absl::StatusOr<RunResult>& result) {
      End(number, message, answer, result,
          [](const RunResult& r) { return absl::string_view(r.outputs); });
    });
  }

  template <typename Result, typename AnswerOf>
  void End(int slot, int message, absl::Span<const uint8_t> answer,
           const absl::StatusOr<Result>& result, const AnswerOf& answer_of) {
    EndedRequest end;
    end.status = result.status();
    absl::string_view c;
    if (result.ok()) {
      end.timings = result->timings;
      c = answer.empty()
              ? answer_of(*result)
              : absl::string_view(reinterpret_cast<const char*>(answer.data()),
                                  answer.size());
      answer_bytes_[message].store(c.size(), std::memory_order_relaxed);
      end.c = absl::MakeConstSpan(&c, 1);
      if (room_ != nullptr && !answer.empty()) end.fetch = &fetch_;
    }
    MutexLock lock(&end_mutex_);
    sink_->OnEnd(slot, end);
  }

  const MessageSet* const messages_;
  RequestSink* const sink_;
  const std::shared_ptr<DeviceRoom> room_;
  const std::function<std::string(absl::string_view)> fetch_ =
      [this](absl::string_view c) { return room_->ToHost(c); };
  std::unique_ptr<Client> client_;
  std::deque<OperandBuffer> operands_;
  std::vector<const OperandBuffer*> operand_of_;  // by message
  Mutex end_mutex_;  // one end at a time, on any thread
  std::deque<Slot> slots_;
  // Size of a message's answer, once one of them was answered.
  std::vector<std::atomic<size_t>> answer_bytes_;
};

}  // namespace

OpenTransport LaneTransports(TransportOptions options,
                             const MessageSet* messages) {
  return [options = std::move(options), messages,
          opened = std::make_shared<std::atomic<int>>(0)](
             int slots, RequestSink* sink) -> OpenedTransport {
    ClientOptions client_options = options.client;
    client_options.max_message_bytes = kMaxMessageBytes;
    client_options.connect_timeout = options.connect_timeout;
    client_options.retry.max_attempts = 1;
    client_options.lane = LaneUse::kRequired;
    client_options.lane_options.operand_bytes = kOperandBytes;
    client_options.lane_options.spin = options.lane_spin;
    client_options.lane_options.calls = std::min<int>(slots, lane::kMaxSlots);
    std::shared_ptr<DeviceRoom> room;
    if (options.device_operands) {
      ASSIGN_OR_RETURN(room, DeviceRoom::Make(kOperandBytes));
      client_options.lane_options.device_operands = {room->operands()};
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     Client::Connect(options.target, client_options));
    const std::string& prefix = options.client_id_prefix;
    const int number = (*opened)++;
    return std::make_unique<LaneTransport>(
        messages, std::move(client), std::move(room), slots,
        prefix.empty() ? "" : absl::StrCat(prefix, "-", number), sink);
  };
}

}  // namespace qgemm::loadtest
