// SPDX-License-Identifier: Apache-2.0
//
// The list of handlers and the number of calls that each waits for.

#include "server/rpc/qgemm_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/byte_budget.h"
#include "base/worker_pool.h"
#include "rpc/completion_queue.h"
#include "server/rpc/call_gate.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/debug_service.h"
#include "server/rpc/handlers.h"
#include "server/rpc/health_service.h"
#include "server/rpc/idle_sweeper.h"
#include "server/rpc/operand_copiers.h"
#include "server/rpc/program_handlers.h"
#include "server/rpc/queries.h"
#include "server/rpc/request_log.h"
#include "server/rpc/server_call.h"
#include "server/rpc/service_guard.h"
#include "server/rpc/unary_handler.h"
#include "server/rpc/upload_message.h"
#include "server/weights/upload_table.h"

namespace qgemm {
namespace {

// Outstanding RequestGemm() calls per completion queue, and RequestEcho(): as
// many as a burst brings, which never waits for one to be posted then.
constexpr int kGemmCallsAwaited = 64;
// The same for each of the other methods.
constexpr int kOtherCallsAwaited = 4;

// Before it shuts down, the server waits until no client has sent a call for
// kQuiet, some round trips of a local connection, but no longer than
// kQuietLimit.
constexpr absl::Duration kQuiet = absl::Milliseconds(50);
constexpr absl::Duration kQuietLimit = absl::Milliseconds(500);
// Time from the start of the shutdown until every connection has been told.
constexpr absl::Duration kShutdownNotice = absl::Milliseconds(20);

// Room for some of the longest lists, half of it for one client.
constexpr int64_t kMaxListBytes = int64_t{64} << 20;

ByteBudgetOptions ListAnswers() {
  ByteBudgetOptions options;
  options.name = "lists that clients have not read";
  options.limit_bytes = kMaxListBytes;
  options.advice = "try again later, with a smaller page_size";
  return options;
}

ClientShare ListShare() {
  return {&ClientUsage::listed_bytes, kMaxListBytes / 2, "lists", "",
          "ask for a smaller page_size"};
}

// Answers that may take their time, and are short.
LongAnswers OnRunner(TaskRunner* runner) {
  LongAnswers answers;
  answers.runner = runner;
  return answers;
}

}  // namespace

class QgemmService::Handlers {
 public:
  Handlers(const RpcOptions& options, const ServerParts& parts)
      : options_(options),
        gate_(parts.access, parts.peers, parts.metrics),
        answer_executor_(options.answer_threads),
        sweeper_(options.progress, parts.clock, parts.metrics),
        uploads_(Uploads(parts), {options.upload_linger,
                                  static_cast<size_t>(options.max_uploads)}),
        queries_(parts.backend, parts.store, parts.clock, options,
                 {&uploads_, parts.loader}),
        gemm_(Services(parts), Gemm(parts), &service_,
              options.max_message_bytes),
        run_(Services(parts), Gemm(parts), &service_,
             options.max_message_bytes),
        stream_(Services(parts), Gemm(parts), &service_, options),
        load_(Services(parts), Uploads(parts), &uploads_, &service_, options),
        query_upload_(
            Services(parts), &service_, {"QueryUpload", kLoadAccess},
            &AsyncQgemm::RequestQueryUpload,
            [this](const auto& request, const Peer& peer, auto* response) {
              return queries_.QueryUpload(peer.principal, request, response);
            },
            OnRunner(&query_executor_)),
        find_missing_(
            Services(parts), &service_, {"FindMissingWeights", kReadAccess},
            &AsyncQgemm::RequestFindMissingWeights,
            [this](const auto& request, const Peer& peer, auto* response) {
              return queries_.FindMissing(peer.principal.get(), request,
                                          response);
            }),
        pin_(Services(parts), &service_, {"PinWeights", kLoadAccess},
             &AsyncQgemm::RequestPinWeights,
             [this](const auto& request, const Peer& peer, auto* response) {
               return queries_.Pin(peer.principal.get(), request, response);
             }),
        touch_(Services(parts), &service_, {"TouchWeights", kReadAccess},
               &AsyncQgemm::RequestTouchWeights,
               [this](const auto& request, const Peer& peer, auto* response) {
                 return queries_.Touch(peer.principal.get(), request, response);
               }),
        unload_(
            Services(parts), &service_, {"UnloadWeights", kLoadAccess},
            &AsyncQgemm::RequestUnloadWeights,
            [this](const auto& request, const Peer& peer, auto* response) {
              return queries_.Unload(peer.principal.get(), request, response);
            },
            OnRunner(&unload_executor_),
            [](const auto& request, const auto& response, const Peer& peer) {
              if (request.keep_on_disk()) {
                return LogUnloadToDisk(request.weights(), peer);
              }
              const std::string& prefix = request.prefix();
              LogUnload(prefix.empty() ? request.weights()
                                       : absl::StrCat(prefix, "*"),
                        response.freed(), peer);
            }),
        list_(Services(parts), &service_, {"ListWeights", kReadAccess},
              &AsyncQgemm::RequestListWeights,
              [this](const auto& request, const Peer& peer, auto* response) {
                return queries_.List(peer.principal.get(), request, response);
              },
              {&list_executor_, &list_answers_, ListShare()}),
        get_(Services(parts), &service_, {"GetWeights", kReadAccess},
             &AsyncQgemm::RequestGetWeights,
             [this](const auto& request, const Peer& peer, auto* response) {
               return queries_.Get(peer.principal.get(), request, response);
             }),
        info_(Services(parts), &service_,
              {"GetServerInfo", RpcAccess::AnyClient()},
              &AsyncQgemm::RequestGetServerInfo,
              [this](const auto& request, const Peer& peer, auto* response) {
                programs_.queries().AddServerInfo(peer.principal.get(),
                                                  response);
                if (peer.user.has_value()) {
                  response->set_lane_path(options_.lane_path);
                }
                return queries_.ServerInfo(peer.principal.get(), request,
                                           response);
              }),
        programs_(Services(parts),
                  {parts.backend, parts.store, parts.programs,
                   options.max_message_bytes, parts.loader},
                  &service_, {&list_executor_, &list_answers_, ListShare()}),
        debug_(Services(parts), parts.backend, parts.scheduler, options),
        health_(Services(parts), v1::Qgemm::service_full_name()) {}

  void Register(grpc::ServerBuilder* builder) {
    builder->RegisterService(&service_);
    debug_.Register(builder);
    health_.Register(builder);
    if (options_.has_grpc_services && gate_.has_table()) {
      GuardGrpcServices(&gate_, builder);
    }
    for (int i = 0; i < options_.completion_queues; ++i) {
      queues_.push_back(
          std::make_unique<CompletionQueue>(builder->AddCompletionQueue()));
    }
  }

  void Start() {
    std::vector<CompletionQueue*> queues;
    for (const std::unique_ptr<CompletionQueue>& queue : queues_) {
      for (int i = 0; i < kGemmCallsAwaited; ++i) {
        gemm_.Accept(queue.get());
        run_.Accept(queue.get());
      }
      for (int i = 0; i < kOtherCallsAwaited; ++i) {
        stream_.Accept(queue.get());
        load_.Accept(queue.get());
        query_upload_.Accept(queue.get());
        find_missing_.Accept(queue.get());
        pin_.Accept(queue.get());
        touch_.Accept(queue.get());
        unload_.Accept(queue.get());
        list_.Accept(queue.get());
        get_.Accept(queue.get());
        info_.Accept(queue.get());
        programs_.Accept(queue.get());
        health_.Accept(queue.get());
      }
      debug_.Accept(queue.get(), kGemmCallsAwaited);
      queue->Start();
      queues.push_back(queue.get());
    }
    sweeper_.Start(std::move(queues),
                   [this](absl::Time now) { uploads_.Sweep(now); });
  }

  void SetHealth(const Health& health) { health_.Set(health); }

  void Fail(const absl::Status& reason) {
    live_calls_.BeginDrain(reason);
    BeginDrain();
  }

  void BeginDrain() {
    live_calls_.BeginDrain();
    load_.EndUploads(live_calls_.CheckServing());
    stream_.BeginDrain();
  }

  void ShutDown(absl::AnyInvocable<void()> shut_down_server) {
    health_.EndWatches();
    live_calls_.HoldRefusals(kQuiet, kQuietLimit);
    releaser_->Submit([this] {
      absl::SleepFor(kShutdownNotice);
      live_calls_.ReleaseRefusals();
    });
    shut_down_server();
    releaser_.reset();
  }

  void Join() {
    live_calls_.WaitUntilNone();
    sweeper_.Stop();
    for (const auto& queue : queues_) queue->ShutDown();
  }

 private:
  template <typename Request, typename Response>
  using Query = UnaryHandler<AsyncQgemm, Request, Response>;

  CallServices Services(const ServerParts& parts) {
    CallServices services = {&live_calls_, parts.metrics, parts.clock, &gate_};
    if (options_.slow_request > absl::ZeroDuration()) {
      services.slow_request = options_.slow_request;
    }
    return services;
  }
  static UploadParts Uploads(const ServerParts& parts) {
    return {parts.backend, parts.store, parts.clock, parts.metrics};
  }
  GemmServices Gemm(const ServerParts& parts) {
    return {parts.backend,     parts.store,
            parts.programs,    parts.scheduler,
            &answer_executor_, &copiers_,
            parts.parked,      options_.max_client_staging_bytes};
  }

  const RpcOptions options_;
  LiveCalls live_calls_;
  const CallGate gate_;
  WorkerPool answer_executor_;
  OperandCopiers copiers_;
  IdleSweeper sweeper_;
  // A list of many layers would hold up a completion queue, and one that is not
  // read stays in memory.
  WorkerPool list_executor_{1};
  // An unload may wait for the disk of the state directory.
  WorkerPool unload_executor_{1};
  // An upload that a process before this one left is read from there.
  WorkerPool query_executor_{1};
  ByteBudget list_answers_{ListAnswers()};
  AsyncQgemm service_;
  UploadTable uploads_;
  const Queries queries_;
  GemmHandler gemm_;
  RunHandler run_;
  GemmStreamHandler stream_;
  LoadWeightsHandler load_;
  Query<v1::QueryUploadRequest, v1::QueryUploadResponse> query_upload_;
  Query<v1::FindMissingWeightsRequest, v1::FindMissingWeightsResponse>
      find_missing_;
  Query<v1::PinWeightsRequest, v1::PinWeightsResponse> pin_;
  Query<v1::TouchWeightsRequest, v1::TouchWeightsResponse> touch_;
  Query<v1::UnloadWeightsRequest, v1::UnloadWeightsResponse> unload_;
  Query<v1::ListWeightsRequest, v1::ListWeightsResponse> list_;
  Query<v1::GetWeightsRequest, v1::GetWeightsResponse> get_;
  Query<v1::GetServerInfoRequest, v1::GetServerInfoResponse> info_;
  ProgramHandlers programs_;
  DebugService debug_;
  HealthService health_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
  // A thread for the shutdown, made at the start: then there may be none left.
  std::unique_ptr<WorkerPool> releaser_ = std::make_unique<WorkerPool>(1);
};

QgemmService::QgemmService(const RpcOptions& options, const ServerParts& parts)
    : handlers_(std::make_unique<Handlers>(options, parts)) {}
QgemmService::~QgemmService() = default;
void QgemmService::Register(grpc::ServerBuilder* builder) {
  handlers_->Register(builder);
}
void QgemmService::Start() { handlers_->Start(); }
void QgemmService::SetHealth(const Health& health) {
  handlers_->SetHealth(health);
}
void QgemmService::Fail(const absl::Status& reason) { handlers_->Fail(reason); }
void QgemmService::BeginDrain() { handlers_->BeginDrain(); }
void QgemmService::ShutDown(absl::AnyInvocable<void()> shut_down_server) {
  handlers_->ShutDown(std::move(shut_down_server));
}
void QgemmService::Join() { handlers_->Join(); }

}  // namespace qgemm
