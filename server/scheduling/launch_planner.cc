// SPDX-License-Identifier: Apache-2.0

#include "server/scheduling/launch_planner.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace qgemm {
namespace {

// Queues without requests that are kept; more than a server sees in hours of
// ordinary service, and little memory.
constexpr size_t kMaxQueues = 8192;

// The part of its queue that a client has waiting, as the policy sees it.
QueueSnapshot SnapshotOf(const ClientQueue& client_queue) {
  const FairQueue& queue = *client_queue.queue->queue();
  const WaitingRequest& first = *client_queue.requests.front();
  QueueSnapshot snapshot;
  snapshot.kind = queue.key().kind;
  snapshot.priority = client_queue.priority;
  snapshot.rows = queue.rows();
  snapshot.oldest = first.waiting_since();
  snapshot.earliest_deadline = first.request->deadline;
  return snapshot;
}

}  // namespace

LaunchPlanner::LaunchPlanner(const SchedulerOptions& options)
    : options_(options),
      clients_(ClientTableOptionsFor(options.batching.max_rows,
                                     options.policy.tile_rows)) {}

LaunchPlanner::~LaunchPlanner() = default;

Refusal LaunchPlanner::CheckRoom(const QueueDemand& demand) const {
  const IdentityState* const identity =
      depth_.requests == 0 ? nullptr : clients_.Find(demand.identity);
  const QueueDepth own = identity == nullptr ? QueueDepth() : identity->waiting;
  return CheckQueueRoom(demand, options_, depth_, own);
}

void LaunchPlanner::Add(std::unique_ptr<AdmittedRequest> request) {
  FairQueue* const queue = QueueOf(*request);
  const LaunchKind kind = queue->key().kind;
  WaitingRequest* const waiting = Count({std::move(request), {}}, kind);
  queue->Push(waiting);
  ClientTable::QueueChanged(waiting->queue);
  if (kind != LaunchKind::kMerged) return;
  gathering_.Arrived(queue, waiting->request->arrival);
  SequenceLayer* const from =
      std::exchange(waiting->client->last_layer, queue->layer());
  predictor_.Observe(from, queue->layer(), waiting->request->arrival);
}

void LaunchPlanner::LaunchEnded(LaunchKind kind, absl::Time now,
                                std::optional<ScheduledRequest> unfinished) {
  --LaunchesOf(kind);
  if (kind == LaunchKind::kMerged) gathering_.Ended(now);
  if (!unfinished.has_value()) return;
  FairQueue* const queue = QueueOf(*unfinished->request);
  WaitingRequest* const waiting =
      Count(*std::move(unfinished), queue->key().kind);
  queue->PushUnfinished(waiting);
  ClientTable::QueueChanged(waiting->queue);
}

PlannedLaunch LaunchPlanner::Next(absl::Time now,
                                  std::vector<DroppedRequest>* dropped) {
  next_look_ = absl::InfiniteFuture();
  if (launches_in_flight() >= options_.max_launches_in_flight) return {};
  DropExpired(now, dropped);
  while (true) {
    const std::optional<Decision> decision = Decide(now);
    if (!decision.has_value()) return {};
    FairQueue* const queue = decision->queue();
    const LaunchKind kind = queue->key().kind;
    if (WaitsForOthers(*decision->start.last)) return {};
    const absl::Time gathers_until = GathersUntil(*decision);
    if (now < gathers_until) {
      next_look_ = gathers_until;
      return {};
    }
    TakeBatch(*decision);
    DropCancelled(dropped);
    if (batch_.empty()) continue;
    last_reason_ = decision->reason;
    ++LaunchesOf(kind);
    if (kind == LaunchKind::kMerged) {
      gathering_.Began(queue, static_cast<int64_t>(batch_.size()), now);
    }
    return {CloseBatch(), kind};
  }
}

bool LaunchPlanner::IsAlone(const WaitingRequest& first) const {
  return first.queue->queue()->key().kind == LaunchKind::kMerged &&
         LaunchesAlone(*first.request, options_.policy.order);
}

bool LaunchPlanner::WaitsForOthers(const WaitingRequest& first) const {
  if (launches_in_flight() == 0 || !IsAlone(first)) return false;
  if (launches_in_flight() > 1) return true;
  return first.queue->queue()->requests() <
         std::min(alone_.others(), options_.batching.max_requests);
}

absl::Time LaunchPlanner::GathersUntil(const Decision& decision) const {
  const FairQueue& queue = *decision.queue();
  const WaitingRequest& first = *decision.start.last;
  const BatchingOptions& batching = options_.batching;
  const bool gathers = gathers_ && queue.key().kind == LaunchKind::kMerged &&
                       !IsAlone(first) && queue.requests() == depth_.requests &&
                       queue.requests() < batching.max_requests &&
                       queue.rows() < MergedRows(*first.request, batching);
  if (!gathers) return absl::InfinitePast();
  return std::min(gathering_.WaitsUntil(&queue),
                  due_.earliest() - options_.policy.deadline_slack);
}

void LaunchPlanner::Sweep(absl::Time now,
                          std::vector<DroppedRequest>* dropped) {
  DropExpired(now, dropped);
  cancelled_.clear();
  clients_.VisitWaiting([this](const IdentityState* identity) {
    for (IdentityQueue* const queue : identity->queues) {
      for (WaitingRequest* waiting = queue->oldest(); waiting != nullptr;) {
        WaitingRequest* const next = IdentityQueue::NextByAge(waiting);
        if (waiting->request->is_cancelled()) {
          queue->queue()->Remove(waiting);
          cancelled_.push_back(waiting);
        }
        waiting = next;
      }
    }
  });
  DropCancelled(dropped);
}

std::vector<ScheduledRequest> LaunchPlanner::TakeAll() {
  std::vector<ScheduledRequest> all;
  while (const IdentityState* const identity = clients_.first_waiting()) {
    WaitingRequest* const waiting = identity->queues.back()->oldest();
    waiting->queue->queue()->Remove(waiting);
    all.push_back(Release(waiting));
  }
  return all;
}

FairQueue* LaunchPlanner::QueueOf(const AdmittedRequest& request) {
  const LaunchKind kind = KindOf(request, options_.batching);
  const void* const work = request.program != nullptr
                               ? static_cast<const void*>(request.program.get())
                               : request.weights.get();
  const QueueKey key = {work, request.signature, kind, request.time_ops};
  const auto found = queues_.find(key);
  if (found != queues_.end()) return found->second.get();
  if (queues_.size() >= kMaxQueues) ForgetIdleQueues();
  return queues_.emplace(key, std::make_unique<FairQueue>(key, &pools_))
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

WaitingRequest* LaunchPlanner::Count(ScheduledRequest scheduled,
                                     LaunchKind kind) {
  const AdmittedRequest& request = *scheduled.request;
  WaitingRequest* const waiting = waiting_.Take();
  waiting->client = clients_.Get(request.identity, request.client);
  clients_.Add(waiting->client, scheduled, kind);
  ++depth_.requests;
  depth_.rows += scheduled.rows_left();
  depth_.bytes += request.operand_bytes();
  waiting->scheduled() = std::move(scheduled);
  due_.Push(waiting);
  return waiting;
}

ScheduledRequest LaunchPlanner::Release(WaitingRequest* waiting) {
  IdentityQueue* const queue = waiting->queue;
  const LaunchKind kind = queue->queue()->key().kind;
  ClientTable::QueueChanged(queue);
  due_.Remove(waiting);
  ScheduledRequest scheduled = std::move(waiting->scheduled());
  clients_.Remove(waiting->client, scheduled, kind);
  --depth_.requests;
  depth_.rows -= scheduled.rows_left();
  depth_.bytes -= scheduled.request->operand_bytes();
  *waiting = WaitingRequest();
  waiting_.Return(waiting);
  return scheduled;
}

void LaunchPlanner::DropExpired(absl::Time now,
                                std::vector<DroppedRequest>* dropped) {
  while (due_.earliest() <= now) {
    WaitingRequest* const waiting = due_.first();
    waiting->queue->queue()->Remove(waiting);
    dropped->push_back(Expired(Release(waiting), now));
  }
}

void LaunchPlanner::DropCancelled(std::vector<DroppedRequest>* dropped) {
  for (WaitingRequest* const waiting : cancelled_) {
    dropped->push_back(Cancelled(Release(waiting)));
  }
  cancelled_.clear();
}

std::optional<LaunchPlanner::Decision> LaunchPlanner::Decide(absl::Time now) {
  DecisionContext context;
  context.now = now;
  context.last = last_reason_;
  context.chunk_may_launch =
      LaunchesOf(LaunchKind::kChunk) < options_.max_chunks_in_flight;
  clients_.BeginDecision(context.chunk_may_launch, &identities_);
  const Candidates candidates = Gather();
  const PolicyOptions policy = PolicyFor(candidates, now);
  const std::optional<QueueChoice> choice =
      NextQueue(candidates.snapshots, context, policy);
  if (!choice.has_value()) return std::nullopt;
  BatchHead head;
  head.urgent = choice->reason == LaunchReason::kUrgent;
  head.aged_before = now - options_.policy.age_cap;
  Decision decision;
  decision.start = candidates.queues[choice->queue]->StartOf(head);
  decision.reason = choice->reason;
  const ClientState* const less_served =
      ClientTable::LeastServedBefore(*decision.start.client_queue->client);
  if (less_served != nullptr) {
    DecideFor(*less_served, context, policy, &decision);
  }
  return decision;
}

LaunchPlanner::Candidates LaunchPlanner::Gather() {
  if (identities_.size() == 1 && clients_.waiting_identities() == 1) {
    IdentityState* const identity = identities_.front();
    return {identity->queues, absl::MakeSpan(identity->snapshots)};
  }
  candidates_.clear();
  snapshots_.clear();
  for (const IdentityState* const identity : identities_) {
    candidates_.insert(candidates_.end(), identity->queues.begin(),
                       identity->queues.end());
    snapshots_.insert(snapshots_.end(), identity->snapshots.begin(),
                      identity->snapshots.end());
  }
  // Other identities may have come and gone since the snapshot.
  for (size_t i = 0; i < candidates_.size(); ++i) {
    snapshots_[i].rows = candidates_[i]->queue()->rows();
  }
  return {candidates_, absl::MakeSpan(snapshots_)};
}

PolicyOptions LaunchPlanner::PolicyFor(const Candidates& candidates,
                                       absl::Time now) {
  PolicyOptions policy = options_.policy;
  if (policy.order == BatchOrder::kChase && !predictor_.trusted()) {
    policy.order = BatchOrder::kOldest;
  }
  if (policy.order != BatchOrder::kChase) return policy;
  predictor_.BeginDecision(now);
  for (size_t i = 0; i < candidates.queues.size(); ++i) {
    candidates.snapshots[i].layers_behind =
        predictor_.LayersBehind(*candidates.queues[i]->queue()->layer());
  }
  return policy;
}

void LaunchPlanner::DecideFor(const ClientState& client,
                              const DecisionContext& context,
                              const PolicyOptions& policy, Decision* decision) {
  client_queues_.clear();
  snapshots_.clear();
  for (ClientQueue* queue = client.queues.front(); queue != nullptr;
       queue = decltype(client.queues)::Next(queue)) {
    client_queues_.push_back(queue);
    snapshots_.push_back(SnapshotOf(*queue));
  }
  const std::optional<QueueChoice> choice =
      NextQueue(snapshots_, context, policy);
  // None if all of its requests wait for the end of a chunk.
  if (!choice.has_value()) return;
  ClientQueue* const queue = client_queues_[choice->queue];
  *decision = {{queue, queue->requests.front(), false}, choice->reason};
}

void LaunchPlanner::TakeBatch(const Decision& decision) {
  FairQueue* const queue = decision.queue();
  BatchBounds bounds;
  bounds.max_rows =
      MergedRows(*decision.start.last->request, options_.batching);
  bounds.max_requests = queue->key().kind == LaunchKind::kChunk
                            ? 1
                            : options_.batching.max_requests;
  batch_.clear();
  queue->TakeBatch(bounds, decision.start, &batch_, &cancelled_);
  CutBatch(queue);
}

// Closes the batch where its tiles are well filled if more requests wait, and
// where its turn is full.
void LaunchPlanner::CutBatch(FairQueue* queue) {
  auto kept = static_cast<int64_t>(batch_.size());
  if (kept < 2) return;
  const bool more_wait = queue->requests() > kept;
  if (!more_wait && !IsAlone(*batch_.front())) return;
  batch_rows_.clear();
  for (const WaitingRequest* const waiting : batch_) {
    batch_rows_.push_back(waiting->request->m);
  }
  const AdmittedRequest& first = *batch_.front()->request;
  kept = more_wait ? RequestsToLaunch(batch_rows_, options_.policy.tile_rows)
                   : RequestsOfTurn(batch_rows_, alone_.clients(),
                                    MergedRows(first, options_.batching));
  while (static_cast<int64_t>(batch_.size()) > kept) {
    queue->Restore(batch_.back());
    batch_.pop_back();
  }
}

ClosedBatch LaunchPlanner::CloseBatch() {
  for (WaitingRequest* const waiting : batch_) {
    waiting->state.in_launch = RowsToLaunch(*waiting);
  }
  ChargeBatch();
  CountClients();
  ClosedBatch closed;
  closed.requests.reserve(batch_.size());
  for (WaitingRequest* const waiting : batch_) {
    waiting->queue->queue()->Launched(waiting);
    closed.requests.push_back(Release(waiting));
  }
  return closed;
}

// An identity pays for what the device does for it: all rows of a chunk, and
// what the launch costs however few rows it has. A client pays as in its
// queue's round robin: it could not catch up alone with those that walk in a
// convoy otherwise.
void LaunchPlanner::ChargeBatch() {
  const WaitingRequest& first = *batch_.front();
  const int64_t row_cost = RowCost(*first.request);
  int64_t rows = 0;
  for (const auto* waiting : batch_) rows += waiting->state.in_launch.count;
  const int64_t least = LeastLaunchCost(*first.request, options_.batching,
                                        options_.policy.tile_rows);
  LaunchCost cost;
  cost.identity_rows = row_cost * first.state.in_launch.count +
                       std::max<int64_t>(0, least - row_cost * rows);
  cost.client_rows = row_cost * first.queue->CostRows(first);
  clients_.Charge(first.client, cost);
  for (size_t i = 1; i < batch_.size(); ++i) {
    clients_.ChargeRider(batch_[i]->client,
                         row_cost * batch_[i]->state.in_launch.count);
  }
}

void LaunchPlanner::CountClients() {
  const WaitingRequest& first = *batch_.front();
  if (!IsAlone(first)) return;
  alone_.Begin();
  for (const WaitingRequest* waiting : batch_) alone_.Count(waiting->client);
}

RowRange LaunchPlanner::RowsToLaunch(const ScheduledRequest& scheduled) const {
  const int64_t rows = RowsPerLaunch(*scheduled.request, options_.batching);
  return {scheduled.state.in_launch.first,
          std::min(rows, scheduled.rows_left())};
}

}  // namespace qgemm
