// SPDX-License-Identifier: Apache-2.0
//
// A thread for each slot, which makes the blocking calls of a frontend: a lane
// has no calls that end elsewhere.

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "lane/segment.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {
namespace {

// Room for the operands of a transport's requests in flight.
constexpr int64_t kOperandBytes = int64_t{64} << 20;

class LaneTransport final : public Transport {
 public:
  // Each slot is a client of its own, of that name and its number; no clients
  // if the name is empty.
  LaneTransport(const MessageSet* messages, std::unique_ptr<Client> client,
                int slots, const std::string& name, RequestSink* sink)
      : messages_(messages),
        sink_(sink),
        client_(std::move(client)),
        slots_(slots) {
    for (int slot = 0; slot < slots; ++slot) {
      if (!name.empty()) {
        slots_[slot].client_id = absl::StrCat(name, "-", slot);
      }
      slots_[slot].thread = std::thread([this, slot] { Serve(slot); });
    }
  }

  ~LaneTransport() override {
    for (Slot& slot : slots_) {
      MutexLock lock(&slot.mutex);
      slot.stopped = true;
      slot.changed.Signal();
    }
    for (Slot& slot : slots_) slot.thread.join();
  }

  void Start(int slot, int message, absl::Duration timeout) override {
    Request request;
    request.message = message;
    if (timeout < absl::InfiniteDuration()) {
      request.deadline = absl::Now() + timeout;
    }
    MutexLock lock(&slots_[slot].mutex);
    slots_[slot].request = request;
    slots_[slot].changed.Signal();
  }

  // A lane's requests cannot be cancelled: they end as they would.
  void Cancel(int) override {}

 private:
  struct Request {
    int message = 0;
    absl::Time deadline = absl::InfiniteFuture();
  };
  struct Slot {
    std::string client_id;
    Mutex mutex;
    CondVar changed;
    bool stopped ABSL_GUARDED_BY(mutex) = false;
    std::optional<Request> request ABSL_GUARDED_BY(mutex);  // that is due
    std::thread thread;
  };

  // The slot's next request; nullopt: there are no more.
  static std::optional<Request> Next(Slot* slot) {
    MutexLock lock(&slot->mutex);
    while (!slot->request.has_value() && !slot->stopped) {
      slot->changed.Wait(&slot->mutex);
    }
    return std::exchange(slot->request, std::nullopt);
  }

  void Serve(int number) {
    Slot& slot = slots_[number];
    while (const std::optional<Request> request = Next(&slot)) {
      if (messages_->is_run(request->message)) {
        RunRequest run = messages_->run(request->message);
        run.client_id = slot.client_id;
        run.deadline = request->deadline;
        const absl::StatusOr<RunResult> result = client_->Run(run);
        End(number, result,
            [](const RunResult& r) { return absl::string_view(r.outputs); });
      } else {
        GemmRequest gemm = messages_->gemm(request->message);
        gemm.client_id = slot.client_id;
        gemm.deadline = request->deadline;
        const absl::StatusOr<GemmResult> result = client_->Gemm(gemm);
        End(number, result,
            [](const GemmResult& r) { return absl::string_view(r.c); });
      }
    }
  }

  template <typename Result, typename AnswerOf>
  void End(int slot, const absl::StatusOr<Result>& result,
           const AnswerOf& answer_of) {
    EndedRequest end;
    end.status = result.status();
    absl::string_view c;
    if (result.ok()) {
      end.timings = result->timings;
      c = answer_of(*result);
      end.c = absl::MakeConstSpan(&c, 1);
    }
    MutexLock lock(&end_mutex_);
    sink_->OnEnd(slot, end);
  }

  const MessageSet* const messages_;
  RequestSink* const sink_;
  const std::unique_ptr<Client> client_;
  Mutex end_mutex_;  // one end at a time, on any thread
  std::deque<Slot> slots_;
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
    client_options.lane_options.calls = std::min<int>(slots, lane::kMaxSlots);
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     Client::Connect(options.target, client_options));
    const std::string& prefix = options.client_id_prefix;
    const int number = (*opened)++;
    return std::make_unique<LaneTransport>(
        messages, std::move(client), slots,
        prefix.empty() ? "" : absl::StrCat(prefix, "-", number), sink);
  };
}

}  // namespace qgemm::loadtest
