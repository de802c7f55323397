// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "client/targets.h"
#include "loadtest/engine/message_set.h"
#include "loadtest/engine/transport.h"
#include "qgemm/client.h"

namespace qgemm::loadtest {
namespace {

class StreamTransport final : public Transport {
 public:
  StreamTransport(const MessageSet* messages, std::unique_ptr<Client> client,
                  std::vector<std::unique_ptr<GemmStream>> streams, int slots,
                  RequestSink* sink)
      : messages_(messages),
        sink_(sink),
        client_(std::move(client)),
        streams_(std::move(streams)),
        slots_(slots) {}

  void Start(int slot, int message, absl::Duration timeout) override {
    const absl::Time deadline = timeout < absl::InfiniteDuration()
                                    ? absl::Now() + timeout
                                    : absl::InfiniteFuture();
    if (messages_->is_run(message)) {
      RunRequest request = messages_->run(message);
      request.inputs_released = [] {};  // the set keeps the inputs
      request.deadline = deadline;
      Submit(slot, request, [](const RunResult& r) { return &r.outputs; });
    } else {
      GemmRequest request = messages_->gemm(message);
      request.a_released = [] {};  // and A
      request.deadline = deadline;
      Submit(slot, request, [](const GemmResult& r) { return &r.c; });
    }
  }

  void Cancel(int slot) override {
    MutexLock lock(&slots_[slot].mutex);
    if (slots_[slot].request != 0) {
      StreamOf(slot).Cancel(slots_[slot].request);
    }
  }

 private:
  struct Slot {
    Mutex mutex;
    uint64_t request ABSL_GUARDED_BY(mutex) = 0;  // 0: none in flight
  };

  GemmStream& StreamOf(int slot) { return *streams_[slot % streams_.size()]; }

  // `bytes_of` has C of the request's result, or what is C for it.
  template <typename Request, typename BytesOf>
  void Submit(int slot, const Request& request, BytesOf bytes_of) {
    // Locked until the request's number is stored: its end waits for it.
    MutexLock lock(&slots_[slot].mutex);
    const absl::StatusOr<uint64_t> number = StreamOf(slot).Submit(
        request, [this, slot, bytes_of](const auto& result) {
          if (!result.ok()) return End(slot, result.status(), {}, {});
          End(slot, absl::OkStatus(), result->timings, *bytes_of(*result));
        });
    slots_[slot].request = number.value_or(0);
    if (number.ok()) return;
    refused_.Submit(
        [this, slot, status = number.status()] { End(slot, status, {}, {}); });
  }

  void End(int slot, const absl::Status& status, const Timings& timings,
           absl::string_view c) {
    {
      MutexLock lock(&slots_[slot].mutex);
      slots_[slot].request = 0;
    }
    EndedRequest end;
    end.status = status;
    if (status.ok()) {
      end.timings = timings;
      end.c = absl::MakeConstSpan(&c, 1);
    }
    MutexLock lock(&end_mutex_);
    sink_->OnEnd(slot, end);
  }

  const MessageSet* const messages_;
  RequestSink* const sink_;
  const std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<GemmStream>> streams_;
  std::vector<Slot> slots_;
  Mutex end_mutex_;        // one end at a time, on any thread
  WorkerPool refused_{1};  // ends requests that no stream took
};

}  // namespace

OpenTransport StreamTransports(TransportOptions options,
                               const MessageSet* messages) {
  return [options = std::move(options), messages,
          opened = std::make_shared<std::atomic<int>>(0)](
             int slots, RequestSink* sink) -> OpenedTransport {
    ASSIGN_OR_RETURN(const std::vector<ServerTarget> servers,
                     ResolveTargets(options.target));
    ClientOptions client_options = options.client;
    client_options.channels = options.channels;
    client_options.max_message_bytes = kMaxMessageBytes;
    client_options.connect_timeout = options.connect_timeout;
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     Client::Connect(options.target, client_options));
    GemmStreamOptions stream_options;
    stream_options.window = slots + 1;  // Submit never waits
    std::vector<std::unique_ptr<GemmStream>> streams;
    const size_t count = options.channels * servers.size();
    while (streams.size() < count) {
      ASSIGN_OR_RETURN(std::unique_ptr<GemmStream> stream,
                       client->GemmStream(stream_options));
      streams.push_back(std::move(stream));
    }
    // Each transport begins with another server than the one before it.
    std::rotate(streams.begin(), streams.begin() + (*opened)++ % servers.size(),
                streams.end());
    return std::make_unique<StreamTransport>(messages, std::move(client),
                                             std::move(streams), slots, sink);
  };
}

}  // namespace qgemm::loadtest
