// SPDX-License-Identifier: Apache-2.0
//
// active_ and snapshots_ change together: in Refresh and Deactivate.

#include "server/scheduling/launch_planner.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

// Clients and queues without requests that are kept; more than a server sees in
// hours of ordinary service, and little memory.
constexpr size_t kMaxIdleClients = 4096;
constexpr size_t kMaxQueues = 8192;

Refusal TooLarge(absl::string_view what, int64_t value,
                 absl::string_view limit_name, int64_t limit) {
  return {absl::InvalidArgumentError(absl::StrCat(
              "the request has ", value, " ", what, ", the limit of ",
              limit_name, " is ", limit,
              ", so that it can never wait for a launch; split its rows over "
              "several requests")),
          DropReason::kTooLarge};
}

Refusal OverQuota(const QueueDemand& demand, absl::string_view quota,
                  absl::string_view values, int64_t limit) {
  return {absl::ResourceExhaustedError(absl::StrCat(
              "client \"", demand.client, "\" is over its quota: ", values,
              ", the limit (", quota, ") is ", limit, "; retry later")),
          DropReason::kQuota};
}

Refusal QueueFull(absl::string_view values, int64_t limit) {
  return {absl::ResourceExhaustedError(
              absl::StrCat("the queue is full: ", values, ", the limit is ",
                           limit, "; retry later")),
          DropReason::kQueueFull};
}

DroppedRequest Expired(ScheduledRequest scheduled, absl::Time now) {
  const AdmittedRequest& request = *scheduled.request;
  absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      "the deadline passed ", absl::FormatDuration(now - request.deadline),
      " ago, after the request had waited ",
      absl::FormatDuration(now - scheduled.waiting_since()), " for a launch; ",
      scheduled.state.in_launch.first, " of ", request.m,
      " rows were computed; allow more time or send less"));
  return {std::move(scheduled), std::move(status), DropReason::kDeadline};
}

DroppedRequest Cancelled(ScheduledRequest scheduled) {
  return {std::move(scheduled), absl::CancelledError("the caller went away"),
          DropReason::kCancelled};
}

}  // namespace

LaunchPlanner::LaunchPlanner(const SchedulerOptions& options)
    : options_(options), clients_(kMaxIdleClients) {}

LaunchPlanner::~LaunchPlanner() = default;

Refusal LaunchPlanner::CheckRoom(const QueueDemand& demand) const {
  const int64_t max_bytes = options_.max_queued_bytes;
  const int64_t row_quota = options_.max_client_queued_rows;
  const int64_t byte_quota = options_.max_client_queued_bytes;
  if (demand.operand_bytes > max_bytes) {
    return TooLarge("operand bytes", demand.operand_bytes, "--max_queued_bytes",
                    max_bytes);
  }
  if (row_quota > 0 && demand.rows > row_quota) {
    return TooLarge("rows", demand.rows, "--max_client_queued_rows", row_quota);
  }
  if (byte_quota > 0 && demand.operand_bytes > byte_quota) {
    return TooLarge("operand bytes", demand.operand_bytes,
                    "--max_client_queued_bytes", byte_quota);
  }
  if (depth_.requests >= options_.max_queued_requests) {
    return QueueFull(absl::StrCat(depth_.requests, " requests wait"),
                     options_.max_queued_requests);
  }
  if (demand.operand_bytes > max_bytes - depth_.bytes) {
    return QueueFull(
        absl::StrCat(depth_.bytes, " operand bytes wait and the request has ",
                     demand.operand_bytes),
        max_bytes);
  }
  if (row_quota > 0 || byte_quota > 0) return CheckQuota(demand);
  return {};
}

Refusal LaunchPlanner::CheckQuota(const QueueDemand& demand) const {
  const ClientState* const client = clients_.Find(demand.client);
  if (client == nullptr) return {};
  const int64_t row_quota = options_.max_client_queued_rows;
  if (row_quota > 0 && demand.rows > row_quota - client->rows) {
    return OverQuota(
        demand, "--max_client_queued_rows",
        absl::StrCat(client->rows, " of its rows wait and the request has ",
                     demand.rows),
        row_quota);
  }
  const int64_t byte_quota = options_.max_client_queued_bytes;
  if (byte_quota > 0 && demand.operand_bytes > byte_quota - client->bytes) {
    return OverQuota(
        demand, "--max_client_queued_bytes",
        absl::StrCat(client->bytes,
                     " of its operand bytes wait and the request has ",
                     demand.operand_bytes),
        byte_quota);
  }
  return {};
}

void LaunchPlanner::Add(std::unique_ptr<AdmittedRequest> request) {
  FairQueue* const queue = QueueOf(*request);
  WaitingRequest* const waiting = Count({std::move(request), {}});
  queue->Push(waiting);
  Refresh(queue);
  if (queue->key().kind != LaunchKind::kMerged) return;
  SequenceLayer* const from =
      std::exchange(waiting->client->last_layer, queue->layer());
  predictor_.Observe(from, queue->layer(), waiting->request->arrival);
}

void LaunchPlanner::LaunchEnded(LaunchKind kind,
                                std::optional<ScheduledRequest> unfinished) {
  --LaunchesOf(kind);
  if (!unfinished.has_value()) return;
  FairQueue* const queue = QueueOf(*unfinished->request);
  queue->PushUnfinished(Count(*std::move(unfinished)));
  Refresh(queue);
}

PlannedLaunch LaunchPlanner::Next(absl::Time now,
                                  std::vector<DroppedRequest>* dropped) {
  if (launches_in_flight() >= options_.max_launches_in_flight) return {};
  DropExpired(now, dropped);
  while (true) {
    const std::optional<QueueChoice> choice = ChooseQueue(now);
    if (!choice.has_value()) return {};
    FairQueue* const queue = active_[choice->queue];
    BatchHead head;
    head.urgent = choice->reason == LaunchReason::kUrgent;
    head.aged_before = now - options_.policy.age_cap;
    TakeFrom(queue, head);
    DropCancelled(dropped);
    if (batch_.empty()) continue;
    last_reason_ = choice->reason;
    const LaunchKind kind = queue->key().kind;
    ++LaunchesOf(kind);
    return {CloseBatch(queue), kind};
  }
}

void LaunchPlanner::Sweep(absl::Time now,
                          std::vector<DroppedRequest>* dropped) {
  DropExpired(now, dropped);
  cancelled_.clear();
  for (FairQueue* const queue : active_) {
    for (WaitingRequest* waiting = queue->oldest(); waiting != nullptr;) {
      WaitingRequest* const next = FairQueue::NextByAge(waiting);
      if (waiting->request->is_cancelled()) {
        queue->Remove(waiting);
        cancelled_.push_back(waiting);
      }
      waiting = next;
    }
  }
  DropCancelled(dropped);
}

std::vector<ScheduledRequest> LaunchPlanner::TakeAll() {
  std::vector<ScheduledRequest> all;
  while (!active_.empty()) {
    FairQueue* const queue = active_.back();
    WaitingRequest* const waiting = queue->oldest();
    queue->Remove(waiting);
    all.push_back(Release(waiting));
  }
  return all;
}

FairQueue* LaunchPlanner::QueueOf(const AdmittedRequest& request) {
  const LaunchKind kind = request.m > options_.batching.max_rows
                              ? LaunchKind::kChunk
                              : LaunchKind::kMerged;
  const QueueKey key = {request.weights.get(), request.signature, kind};
  const auto found = queues_.find(key);
  if (found != queues_.end()) return found->second.get();
  if (queues_.size() >= kMaxQueues) ForgetIdleQueues();
  return queues_.emplace(key, std::make_unique<FairQueue>(key, &client_queues_))
      .first->second.get();
}

void LaunchPlanner::ForgetIdleQueues() {
  clients_.ForgetLayers();
  for (auto entry = queues_.begin(); entry != queues_.end();) {
    const auto next = std::next(entry);
    *entry->second->layer() = SequenceLayer();
    if (entry->second->empty()) queues_.erase(entry);
    entry = next;
  }
}

WaitingRequest* LaunchPlanner::Count(ScheduledRequest scheduled) {
  WaitingRequest* const waiting = waiting_.Take();
  waiting->client = clients_.Get(scheduled.request->client);
  clients_.Add(waiting->client, scheduled);
  ++depth_.requests;
  depth_.rows += scheduled.rows_left();
  depth_.bytes += scheduled.request->operand_bytes();
  waiting->scheduled() = std::move(scheduled);
  return waiting;
}

ScheduledRequest LaunchPlanner::Release(WaitingRequest* waiting) {
  waiting->queue->empty() ? Deactivate(waiting->queue)
                          : Refresh(waiting->queue);
  ScheduledRequest scheduled = std::move(waiting->scheduled());
  clients_.Remove(waiting->client, scheduled);
  --depth_.requests;
  depth_.rows -= scheduled.rows_left();
  depth_.bytes -= scheduled.request->operand_bytes();
  waiting_.Return(waiting);
  return scheduled;
}

void LaunchPlanner::Refresh(FairQueue* queue) {
  if (queue->active_index < 0) {
    queue->active_index = static_cast<int64_t>(active_.size());
    active_.push_back(queue);
    snapshots_.emplace_back();
  }
  QueueSnapshot& snapshot = snapshots_[queue->active_index];
  snapshot.kind = queue->key().kind;
  snapshot.priority = queue->highest_priority();
  snapshot.rows = queue->rows();
  snapshot.oldest = queue->oldest()->waiting_since();
  snapshot.earliest_deadline = queue->deadlines().earliest();
}

void LaunchPlanner::Deactivate(FairQueue* queue) {
  const int64_t index = std::exchange(queue->active_index, -1);
  if (index < 0) return;
  FairQueue* const last = active_.back();
  if (last != queue) {
    active_[index] = last;
    snapshots_[index] = snapshots_.back();
    last->active_index = index;
  }
  active_.pop_back();
  snapshots_.pop_back();
}

void LaunchPlanner::DropExpired(absl::Time now,
                                std::vector<DroppedRequest>* dropped) {
  // Backwards: the last queue, already visited, replaces one that gets empty.
  for (size_t i = active_.size(); i-- > 0;) {
    if (snapshots_[i].earliest_deadline > now) continue;
    FairQueue* const queue = active_[i];
    while (queue->deadlines().earliest() <= now) {
      WaitingRequest* const waiting = queue->deadlines().first();
      queue->Remove(waiting);
      dropped->push_back(Expired(Release(waiting), now));
    }
  }
}

void LaunchPlanner::DropCancelled(std::vector<DroppedRequest>* dropped) {
  for (WaitingRequest* const waiting : cancelled_) {
    dropped->push_back(Cancelled(Release(waiting)));
  }
  cancelled_.clear();
}

std::optional<QueueChoice> LaunchPlanner::ChooseQueue(absl::Time now) {
  DecisionContext context;
  context.now = now;
  context.last = last_reason_;
  context.chunk_may_launch =
      LaunchesOf(LaunchKind::kChunk) < options_.max_chunks_in_flight;
  PolicyOptions policy = options_.policy;
  if (!predictor_.trusted()) policy.order = BatchOrder::kOldest;
  if (policy.order == BatchOrder::kChase) {
    predictor_.BeginDecision(now);
    for (size_t i = 0; i < active_.size(); ++i) {
      snapshots_[i].layers_behind =
          predictor_.LayersBehind(*active_[i]->layer());
    }
  }
  return NextQueue(snapshots_, context, policy);
}

void LaunchPlanner::TakeFrom(FairQueue* queue, const BatchHead& head) {
  BatchBounds bounds;
  bounds.max_rows = options_.batching.max_rows;
  bounds.max_requests = queue->key().kind == LaunchKind::kChunk
                            ? 1
                            : options_.batching.max_requests;
  batch_.clear();
  queue->TakeBatch(bounds, head, &batch_, &cancelled_);
  CutBatch(queue);
}

// Closes the batch where its tiles are well filled if more requests wait.
void LaunchPlanner::CutBatch(FairQueue* queue) {
  if (batch_.size() < 2) return;
  if (queue->requests() == static_cast<int64_t>(batch_.size())) return;
  batch_rows_.clear();
  for (const WaitingRequest* const waiting : batch_) {
    batch_rows_.push_back(waiting->request->m);
  }
  const int64_t kept = RequestsToLaunch(batch_rows_, options_.policy.tile_rows);
  while (static_cast<int64_t>(batch_.size()) > kept) {
    queue->Restore(batch_.back());
    batch_.pop_back();
  }
}

ClosedBatch LaunchPlanner::CloseBatch(FairQueue* queue) {
  ClosedBatch closed;
  closed.requests.reserve(batch_.size());
  for (WaitingRequest* const waiting : batch_) {
    queue->Launched(waiting);
    ScheduledRequest scheduled = Release(waiting);
    scheduled.state.in_launch = RowsToLaunch(scheduled);
    closed.requests.push_back(std::move(scheduled));
  }
  return closed;
}

RowRange LaunchPlanner::RowsToLaunch(const ScheduledRequest& scheduled) const {
  const BatchingOptions& batching = options_.batching;
  const AdmittedRequest& request = *scheduled.request;
  if (request.m <= batching.max_rows) return {0, request.m};
  const int64_t rows = ChunkRows(request.m, request.weights->n(),
                                 request.weights->k(), batching.chunks);
  return {scheduled.state.in_launch.first,
          std::min(rows, scheduled.rows_left())};
}

}  // namespace qgemm
