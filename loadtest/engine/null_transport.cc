// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/null_transport.h"

#include <thread>
#include <vector>

#include "base/mutex.h"

namespace qgemm {
namespace {

class NullTransport final : public Transport {
 public:
  NullTransport(int places, RequestSink* sink) : sink_(sink) {
    started_.reserve(places);
    ending_.reserve(places);
    thread_ = std::thread([this] { Run(); });
  }

  ~NullTransport() override {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
      changed_.Signal();
    }
    thread_.join();
  }

  void Start(int place, int, absl::Duration) override {
    MutexLock lock(&mutex_);
    started_.push_back(place);
    if (started_.size() == 1) changed_.Signal();
  }

  void Cancel(int) override {}  // it has ended before anyone could

  absl::Status Disconnect() override { return absl::OkStatus(); }

 private:
  void Run() {
    while (Await()) {
      for (int place : ending_) sink_->OnEnd(place, EndedRequest());
      ending_.clear();
    }
  }

  bool Await() {
    MutexLock lock(&mutex_);
    while (started_.empty() && !closed_) changed_.Wait(&mutex_);
    ending_.swap(started_);
    return !ending_.empty();
  }

  RequestSink* const sink_;
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> started_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> ending_;  // of the thread
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> NullTransportFactory::Open(
    int places, RequestSink* sink) {
  return absl::StatusOr<std::unique_ptr<Transport>>(
      std::make_unique<NullTransport>(places, sink));
}

}  // namespace qgemm
