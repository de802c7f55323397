// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <utility>

#include "base/worker_pool.h"
#include "loadtest/engine/transport.h"

namespace qgemm::loadtest {
namespace {

class NullTransport final : public Transport {
 public:
  explicit NullTransport(RequestSink* sink) : sink_(sink) {}

  void Start(int slot, int, absl::Duration) override {
    ends_.Submit([this, slot] { sink_->OnEnd(slot, EndedRequest()); });
  }

  void Cancel(int) override {}  // too late: its end is queued

  absl::Status Disconnect() override { return absl::OkStatus(); }

 private:
  RequestSink* const sink_;
  WorkerPool ends_{1};
};

}  // namespace

OpenTransport NullTransports() {
  return
      [](int, RequestSink* sink) -> absl::StatusOr<std::unique_ptr<Transport>> {
        return std::make_unique<NullTransport>(sink);
      };
}

}  // namespace qgemm::loadtest
