// SPDX-License-Identifier: Apache-2.0
//
// The loader tells of a layer by the request's number: a request that has ended
// meanwhile is no longer there.

#include "server/scheduling/parked_requests.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// Time from one look at what waits to the next.
constexpr absl::Duration kLook = absl::Milliseconds(20);

void End(std::unique_ptr<AdmittedRequest> request, const absl::Status& status) {
  ScheduledRequest scheduled;
  scheduled.request = std::move(request);
  Complete(std::move(scheduled), status);
}

absl::Status Draining() {
  return absl::UnavailableError(
      "the server is draining and the layer is on its disk still; retry on "
      "another replica");
}

// OK while somebody waits for the request.
absl::Status CheckWanted(const AdmittedRequest& request, absl::Time now) {
  if (request.is_cancelled()) {
    return absl::CancelledError(
        "the caller went away while the layer was read from the disk");
  }
  if (request.deadline > now) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "the deadline passed while the layer was read from the disk");
}

}  // namespace

ParkedRequests::ParkedRequests(const Parts& parts, int64_t max_requests)
    : parts_(parts),
      max_requests_(max_requests),
      watcher_([this] { Watch(); }) {}

ParkedRequests::~ParkedRequests() {
  Drain();
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.SignalAll();
  watcher_.join();
}

void ParkedRequests::Park(std::unique_ptr<AdmittedRequest> request) {
  const std::string id = request->layer->id;
  absl::Status refused;
  int64_t number = 0;
  {
    MutexLock lock(&mutex_);
    if (draining_) {
      refused = Draining();
    } else if (static_cast<int64_t>(waiting_.size()) >= max_requests_) {
      refused = absl::ResourceExhaustedError(
          absl::StrCat(max_requests_,
                       " requests wait for layers that are on the disk "
                       "(--max_queued_requests); retry later"));
    } else {
      number = next_number_++;
      waiting_.emplace(number, std::move(request));
    }
  }
  if (!refused.ok()) return End(std::move(request), refused);
  changed_.Signal();
  parts_.loader->Fetch(id, [this, number](LayerLoader::Result layer) {
    Resume(number, std::move(layer));
  });
}

void ParkedRequests::Drain() {
  std::map<int64_t, std::unique_ptr<AdmittedRequest>> ended;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    ended.swap(waiting_);
  }
  for (auto& [unused, request] : ended) End(std::move(request), Draining());
}

std::unique_ptr<AdmittedRequest> ParkedRequests::Take(int64_t number) {
  MutexLock lock(&mutex_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return nullptr;
  std::unique_ptr<AdmittedRequest> request = std::move(found->second);
  waiting_.erase(found);
  return request;
}

void ParkedRequests::Resume(int64_t number, LayerLoader::Result layer) {
  std::unique_ptr<AdmittedRequest> request = Take(number);
  if (request == nullptr) return;
  absl::Status status = layer.status();
  if (status.ok()) {
    request->layer = *std::move(layer);
    request->weights = request->layer->resident;
    request->traffic.layer = request->layer->traffic;
    status =
        parts_.backend->CheckSupport(*request->weights, request->signature);
  }
  if (!status.ok()) return End(std::move(request), status);
  parts_.scheduler->Enqueue(std::move(request));
}

void ParkedRequests::Watch() {
  while (true) {
    std::vector<std::pair<std::unique_ptr<AdmittedRequest>, absl::Status>> over;
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      if (waiting_.empty()) {
        changed_.Wait(&mutex_);
      } else {
        changed_.WaitFor(&mutex_, kLook);
      }
      const absl::Time now = parts_.clock->Now();
      for (auto next = waiting_.begin(); next != waiting_.end();) {
        const absl::Status wanted = CheckWanted(*next->second, now);
        if (wanted.ok()) {
          ++next;
          continue;
        }
        over.emplace_back(std::move(next->second), wanted);
        next = waiting_.erase(next);
      }
    }
    for (auto& [request, status] : over) End(std::move(request), status);
  }
}

}  // namespace qgemm
