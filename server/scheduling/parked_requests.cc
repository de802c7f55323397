// SPDX-License-Identifier: Apache-2.0
//
// The loader tells of a layer by the request's number: a request that has ended
// meanwhile is no longer there.

#include "server/scheduling/parked_requests.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// Time from one look at what waits to the next.
constexpr absl::Duration kLook = absl::Milliseconds(20);

// Operand bytes are bounded by the memory that they lie in, and a client's part
// of it.
QueueLimits LimitsOf(int64_t max_requests) {
  QueueLimits limits;
  limits.max_queued_requests = max_requests;
  limits.max_queued_bytes = std::numeric_limits<int64_t>::max();
  return limits;
}

void EndRequest(std::unique_ptr<AdmittedRequest> request,
                const absl::Status& status) {
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
        "the caller went away before the layer was brought from the disk");
  }
  if (request.deadline > now) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "the deadline passed before the layer was brought from the disk; it may "
      "have waited for room in memory");
}

}  // namespace

ParkedRequests::ParkedRequests(const Parts& parts, int64_t max_requests)
    : parts_(parts),
      limits_(LimitsOf(max_requests)),
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

absl::Status ParkedRequests::CheckRoom(const AdmittedRequest& request) const {
  if (draining_) return Draining();
  const auto found = depth_of_.find(request.identity);
  const QueueDepth own =
      found == depth_of_.end() ? QueueDepth() : found->second;
  const absl::Status room =
      CheckQueueRoom(DemandOf(request), limits_, depth_, own).status;
  if (room.ok()) return room;
  return absl::Status(
      room.code(),
      absl::StrCat("requests for layers on the disk: ", room.message()));
}

void ParkedRequests::Count(const AdmittedRequest& request, int64_t change) {
  QueueDepth& own = depth_of_[request.identity];
  for (QueueDepth* const depth : {&depth_, &own}) {
    depth->requests += change;
    depth->rows += change * request.m;
    depth->bytes += change * request.operand_bytes();
  }
  if (own.requests == 0) depth_of_.erase(request.identity);
}

ParkedRequests::Waiting ParkedRequests::Remove(
    WaitingByNumber::iterator waiting) {
  Waiting removed = std::move(waiting->second);
  Count(*removed.request, -1);
  waiting_.erase(waiting);
  return removed;
}

void ParkedRequests::Park(std::unique_ptr<AdmittedRequest> request) {
  const std::string id = request->layer->id;
  absl::Status refused;
  int64_t number = 0;
  {
    MutexLock lock(&mutex_);
    refused = CheckRoom(*request);
    if (refused.ok()) {
      number = next_number_++;
      Count(*request, 1);
      waiting_[number].request = std::move(request);
    }
  }
  if (!refused.ok()) return EndRequest(std::move(request), refused);
  changed_.Signal();
  const LayerLoader::Ticket ticket =
      parts_.loader->Fetch(id, [this, number](LayerLoader::Result layer) {
        Resume(number, std::move(layer));
      });
  {
    MutexLock lock(&mutex_);
    const auto waiting = waiting_.find(number);
    if (waiting != waiting_.end()) {
      waiting->second.ticket = ticket;
      return;
    }
  }
  parts_.loader->Leave(id, ticket);  // it has ended meanwhile
}

void ParkedRequests::End(Waiting waiting, const absl::Status& status) {
  if (waiting.ticket != kNoTicket) {
    parts_.loader->Leave(waiting.request->layer->id, waiting.ticket);
  }
  EndRequest(std::move(waiting.request), status);
}

void ParkedRequests::Drain() {
  WaitingByNumber ended;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    ended.swap(waiting_);
    depth_ = QueueDepth();
    depth_of_.clear();
  }
  for (auto& [unused, waiting] : ended) End(std::move(waiting), Draining());
}

std::unique_ptr<AdmittedRequest> ParkedRequests::Take(int64_t number) {
  MutexLock lock(&mutex_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return nullptr;
  return Remove(found).request;
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
  if (!status.ok()) return EndRequest(std::move(request), status);
  parts_.scheduler->Enqueue(std::move(request));
}

void ParkedRequests::Watch() {
  while (true) {
    std::vector<std::pair<Waiting, absl::Status>> over;
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
        const absl::Status wanted = CheckWanted(*next->second.request, now);
        const auto looked_at = next++;
        if (!wanted.ok()) over.emplace_back(Remove(looked_at), wanted);
      }
    }
    for (auto& [waiting, status] : over) End(std::move(waiting), status);
  }
}

}  // namespace qgemm
