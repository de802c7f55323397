// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/stream_transport.h"

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "qgemm/client.h"

namespace qgemm {
namespace {

class StreamTransport final : public Transport {
 public:
  StreamTransport(const MessageSet* messages, std::unique_ptr<Client> client,
                  std::vector<std::unique_ptr<GemmStream>> streams,
                  RequestSink* sink)
      : messages_(messages),
        sink_(sink),
        client_(std::move(client)),
        streams_(std::move(streams)),
        refusing_([this] { EndRefused(); }) {}

  ~StreamTransport() override {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      changed_.Signal();
    }
    refusing_.join();
    streams_.clear();
  }

  void AddPlaces(int places) {
    for (int i = 0; i < places; ++i) {
      places_.push_back(std::make_unique<Place>());
      places_.back()->stream = streams_[i % streams_.size()].get();
    }
  }

  void Start(int place, int message, absl::Duration timeout) override;
  void Cancel(int place) override;

  absl::Status Disconnect() override {
    return absl::FailedPreconditionError(
        "a stream has no connection that can be cut");
  }

 private:
  struct Place {
    GemmStream* stream = nullptr;
    Mutex mutex;
    uint64_t request ABSL_GUARDED_BY(mutex) = 0;  // 0: none in flight
  };
  struct Refused {
    int place;
    absl::Status status;
  };

  void End(int place, const absl::StatusOr<GemmResult>& result);
  // The thread that ends what no stream took.
  void EndRefused();

  const MessageSet* const messages_;
  RequestSink* const sink_;
  const std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<GemmStream>> streams_;
  std::vector<std::unique_ptr<Place>> places_;
  Mutex end_mutex_;  // one end at a time, on whichever thread
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Refused> refused_ ABSL_GUARDED_BY(mutex_);
  std::thread refusing_;
};

void StreamTransport::Start(int place, int message, absl::Duration timeout) {
  GemmRequest options = messages_->gemm(message);
  options.a_released = [] {};  // the set keeps A
  if (timeout < absl::InfiniteDuration()) {
    options.deadline = absl::Now() + timeout;
  }
  Place& at = *places_[place];
  absl::Status refused;
  {
    // Until the request's number is there, so that its end waits for it.
    MutexLock lock(&at.mutex);
    const absl::StatusOr<uint64_t> request = at.stream->Submit(
        options, [this, place](const absl::StatusOr<GemmResult>& result) {
          End(place, result);
        });
    refused = request.status();
    at.request = request.ok() ? *request : 0;
  }
  if (refused.ok()) return;
  MutexLock lock(&mutex_);
  refused_.push_back({place, std::move(refused)});
  changed_.Signal();
}

void StreamTransport::Cancel(int place) {
  Place& at = *places_[place];
  MutexLock lock(&at.mutex);
  if (at.request != 0) at.stream->Cancel(at.request);
}

void StreamTransport::End(int place, const absl::StatusOr<GemmResult>& result) {
  {
    MutexLock lock(&places_[place]->mutex);
    places_[place]->request = 0;
  }
  EndedRequest end;
  end.status = result.status();
  absl::string_view c;
  if (result.ok()) {
    end.timings = result->timings;
    c = result->c;
    end.c = absl::MakeConstSpan(&c, 1);
  }
  MutexLock lock(&end_mutex_);
  sink_->OnEnd(place, end);
}

void StreamTransport::EndRefused() {
  while (true) {
    Refused refused;
    {
      MutexLock lock(&mutex_);
      while (refused_.empty() && !closed_) changed_.Wait(&mutex_);
      if (refused_.empty()) return;
      refused = std::move(refused_.front());
      refused_.pop_front();
    }
    End(refused.place, refused.status);
  }
}

}  // namespace

StreamTransportFactory::StreamTransportFactory(StreamTransportOptions options,
                                               const MessageSet* messages)
    : options_(std::move(options)), messages_(messages) {}

absl::StatusOr<std::unique_ptr<Transport>> StreamTransportFactory::Open(
    int places, RequestSink* sink) {
  ClientOptions client_options;
  client_options.channels = options_.channels;
  client_options.max_message_bytes = options_.max_message_bytes;
  client_options.connect_timeout = options_.connect_timeout;
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect(options_.target, client_options));
  GemmStreamOptions stream_options;
  stream_options.window = places + 1;  // Submit never waits
  std::vector<std::unique_ptr<GemmStream>> streams;
  for (int i = 0; i < options_.channels; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<GemmStream> stream,
                     client->GemmStream(stream_options));
    streams.push_back(std::move(stream));
  }
  auto transport = std::make_unique<StreamTransport>(
      messages_, std::move(client), std::move(streams), sink);
  transport->AddPlaces(places);
  return absl::StatusOr<std::unique_ptr<Transport>>(std::move(transport));
}

}  // namespace qgemm
