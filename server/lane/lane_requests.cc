// SPDX-License-Identifier: Apache-2.0

#include "server/lane/lane_requests.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/prefetch.h"
#include "base/status_macros.h"
#include "rpc/grpc_status.h"
#include "server/lane/entry_checks.h"
#include "server/rpc/request_log.h"
#include "server/rpc/translate.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/weights/owners.h"

namespace qgemm {
namespace {

// Requests that enter the queue together: a tile of most kernels. The first
// would wait for the checks of more.
constexpr size_t kMostTogether = 16;

// As metrics and logs name a lane's requests.
constexpr absl::string_view kGemmMethod = "LaneGemm";
constexpr absl::string_view kRunMethod = "LaneRun";

// A lane's operands are its client's own, so that their size is no limit
// beside that of the lane.
ResultLimit NoResultLimit() {
  return {std::numeric_limits<int64_t>::max(), "", 0};
}

absl::Status CheckResultBytes(uint64_t c_bytes, const GemmSizes& sizes) {
  if (c_bytes == static_cast<uint64_t>(sizes.c_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("c_bytes = ", c_bytes, "; the result of m = ", sizes.m,
                   " rows has ", sizes.c_bytes));
}

GemmServices ToGemmServices(const LaneParts& parts) {
  GemmServices services;
  services.backend = parts.backend;
  services.store = parts.store;
  services.programs = parts.programs;
  services.scheduler = parts.scheduler;
  services.parked = parts.parked;
  return services;
}

}  // namespace

// A request until its completion is written, and what is left of it then.
struct LaneRequests::Request {
  std::shared_ptr<Lane> lane;
  lane::RequestEntry entry;
  absl::Time arrival;
  // The client by the table in force when the request came; null until then.
  std::shared_ptr<const Peer> peer;
  bool runs_program = false;
  // The scheduler's request while that does not have it: kept, once it has
  // ended, for the thread that made it, which uses it again.
  std::unique_ptr<AdmittedRequest> admitted;

  void PrefetchOwned() const { PrefetchToWrite(admitted.get()); }
  void Clear() {
    if (admitted != nullptr) admitted->Clear();
    peer.reset();
    lane.reset();
  }

  absl::string_view method() const {
    return runs_program ? kRunMethod : kGemmMethod;
  }
  // Borrows a region's memory.
  static StagingLease Borrow(const LaneRegion& region, uint64_t offset,
                             uint64_t bytes) {
    return {region.data + offset, static_cast<int64_t>(bytes), nullptr};
  }
  // The same, and keeps the lane for as long as somebody may write there.
  StagingLease Lease(const LaneRegion& region, uint64_t offset,
                     uint64_t bytes) const {
    return {region.data + offset, static_cast<int64_t>(bytes),
            [keeper = lane] {}};
  }
};

LaneRequests::LaneRequests(const LaneParts& parts, absl::Duration slow_request,
                           int wake_threads)
    : parts_(parts),
      slow_request_(slow_request),
      services_(ToGemmServices(parts)),
      gemms_(parts.metrics->Rpc(kGemmMethod)),
      runs_(parts.metrics->Rpc(kRunMethod)),
      requests_(std::make_unique<Recycler<Request>>()),
      wakers_(wake_threads) {}

LaneRequests::~LaneRequests() = default;

void LaneRequests::ReleaseEnded() { requests_->Collect(); }

void LaneRequests::Serve(absl::Span<const LaneArrival> arrivals) {
  // The thread that waits for a launch takes nothing from any lane meanwhile.
  const bool is_alone = arrivals.size() == 1 && !live_.any();
  const absl::Time now = parts_.clock->Now();
  for (const LaneArrival& arrival : arrivals) {
    Begin(arrival, now, is_alone);
    if (ready_.size() == kMostTogether) EnqueueReady();
  }
  EnqueueReady();
}

void LaneRequests::EnqueueReady() {
  GemmRequestBuilder::EnqueueAll(absl::MakeSpan(ready_));
  ready_.clear();
}

void LaneRequests::Begin(const LaneArrival& arrival, absl::Time now,
                         bool is_alone) {
  live_.Add();
  const lane::RequestEntry& entry = arrival.entry;
  Request* const request = requests_->Take();
  request->lane = arrival.lane;
  request->entry = entry;
  request->arrival = now;
  absl::StatusOr<GemmRequestBuilder> builder = Prepare(request);
  if (!builder.ok()) {
    // Requests before it are in the queue once this one is answered: a drain
    // that begins then answers them too.
    EnqueueReady();
    return End(request, builder.status(), {}, nullptr);
  }
  GemmCaller caller;
  caller.arrival = request->arrival;
  caller.deadline = DeadlineAfter(request->arrival, entry.timeout_ns);
  // Borrowed: the request keeps its lane until it has ended.
  caller.cancelled = {std::shared_ptr<Lane>(), &arrival.lane->client_left()};
  caller.may_wait = is_alone;
  builder->SetCaller(
      std::move(caller),
      [this, request](const absl::Status& status, const GemmTimings& timings,
                      std::unique_ptr<AdmittedRequest> ended) {
        End(request, status, timings, std::move(ended));
      });
  ready_.push_back(*std::move(builder));
}

void LaneRequests::Refuse(const absl::Status& refusal) {
  MutexLock lock(&mutex_);
  if (!refusal_.ok()) return;
  refusal_ = refusal;
  refuses_.store(true, std::memory_order_release);
}

absl::Status LaneRequests::CheckServing() const {
  if (!refuses_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return refusal_;
}

absl::StatusOr<GemmRequestBuilder> LaneRequests::Prepare(Request* request) {
  RETURN_IF_ERROR(CheckServing());
  ASSIGN_OR_RETURN(request->peer, request->lane->client().Current());
  const lane::RequestEntry& entry = request->entry;
  request->runs_program = false;
  ASSIGN_OR_RETURN(const std::shared_ptr<const LaneHandle> handle,
                   request->lane->handles().Find(entry.handle));
  request->runs_program = handle->kind == lane::HandleKind::kProgram;
  const LaneRegions& regions = request->lane->regions();
  ASSIGN_OR_RETURN(const LaneRegion a,
                   regions.Find("a_region", entry.a_region));
  ASSIGN_OR_RETURN(const LaneRegion c,
                   regions.Find("c_region", entry.c_region));
  RETURN_IF_ERROR(CheckEntry(entry, handle->kind, a.size_bytes, c.size_bytes));
  ASSIGN_OR_RETURN(GemmRequestBuilder builder, Parse(request, *handle));
  RETURN_IF_ERROR(CheckResultBytes(entry.c_bytes, builder.sizes()));
  // Whoever keeps the result's memory keeps that of A beside it.
  builder.SetOperands(Request::Borrow(a, entry.a_offset, entry.a_bytes),
                      request->Lease(c, entry.c_offset, entry.c_bytes));
  parts_.metrics->AddTransportBytes("lane", Direction::kReceived,
                                    builder.sizes().a_bytes);
  return builder;
}

absl::StatusOr<GemmRequestBuilder> LaneRequests::Parse(
    Request* request, const LaneHandle& handle) {
  const lane::RequestEntry& entry = request->entry;
  const Peer& peer = *request->peer;
  const auto a_bytes = static_cast<int64_t>(entry.a_bytes);
  const auto priority = static_cast<v1::Priority>(entry.priority);
  if (handle.kind == lane::HandleKind::kProgram) {
    run_.set_program(handle.name);
    run_.set_client_id(handle.client_id);
    run_.set_m(entry.m);
    run_.set_priority(priority);
    return ParseRun(services_, run_, a_bytes, NoResultLimit(), peer,
                    std::move(request->admitted));
  }
  gemm_.set_weights(handle.name);
  gemm_.set_client_id(handle.client_id);
  gemm_.set_m(entry.m);
  gemm_.set_priority(priority);
  gemm_.set_a_type(static_cast<v1::FloatType>(entry.a_type));
  gemm_.set_c_type(static_cast<v1::FloatType>(entry.c_type));
  gemm_.set_mode(static_cast<v1::ComputeMode>(entry.mode));
  gemm_.set_rounding(static_cast<v1::FloatType>(entry.rounding));
  return ParseGemm(services_, gemm_, a_bytes, NoResultLimit(), peer,
                   std::move(request->admitted));
}

LaneAnswer LaneRequests::AnswerOf(const Request& request,
                                  const absl::Status& status,
                                  const GemmTimings& timings) {
  LaneAnswer answer;
  answer.status = status;
  answer.total = parts_.clock->Now() - request.arrival;
  if (status.ok()) {
    answer.timings = timings;
    if (!ManagesAll(request.peer->principal.get())) {
      // Others' requests may have shared the launch.
      answer.timings.launch_rows = 0;
      answer.timings.launch_requests = 0;
    }
    return answer;
  }
  answer.retry_delay = RetryDelayOf(status).value_or(RetryDelayFor(status));
  LogRefusal(request.method(), status, [&] {
    return request.peer != nullptr ? request.peer
                                   : request.lane->client().connection();
  });
  return answer;
}

void LaneRequests::End(Request* request, const absl::Status& status,
                       const GemmTimings& timings,
                       std::unique_ptr<AdmittedRequest> ended) {
  const LaneAnswer answer = AnswerOf(*request, status, timings);
  if (status.ok()) {
    if (answer.total >= slow_request_) {
      LogSlowRequest({request->method(), *ended, timings, answer.total},
                     *parts_.store);
    }
    parts_.metrics->AddTransportBytes("lane", Direction::kSent,
                                      ended->c.size_bytes());
  }
  (request->runs_program ? runs_ : gemms_)->Ended(status.code(), answer.total);
  if (ended != nullptr) {
    // Releases the weights or the program before the client can see the answer:
    // it may unload them then.
    ended->weights.reset();
    ended->program.reset();
    ended->layer.reset();
  }
  WriteCompletion(*request, answer, timings.launch_requests);
  if (ended != nullptr) request->admitted = std::move(ended);
  requests_->Return(request);
  live_.Remove();
}

// To write is a few stores; to wake a thread takes microseconds, for which the
// other requests of the launch do not wait.
void LaneRequests::WriteCompletion(const Request& request,
                                   const LaneAnswer& answer,
                                   int64_t launch_requests) {
  const uint32_t slot = request.entry.slot;
  CompletionWriter& completions = request.lane->completions();
  if (!completions.Write(slot, request.entry.cookie, answer)) return;
  if (launch_requests <= kMaxInlineCompletions) return completions.Wake(slot);
  wakers_.Submit(
      [lane = request.lane, slot] { lane->completions().Wake(slot); });
}

}  // namespace qgemm
