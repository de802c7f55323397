// SPDX-License-Identifier: Apache-2.0
//
// The list of handlers and how many calls each waits for.

#include "server/rpc/qgemm_service.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/worker_pool.h"
#include "server/rpc/completion_queue.h"
#include "server/rpc/debug_service.h"
#include "server/rpc/gemm_handler.h"
#include "server/rpc/gemm_stream_handler.h"
#include "server/rpc/health_service.h"
#include "server/rpc/load_weights_handler.h"
#include "server/rpc/not_offered.h"
#include "server/rpc/queries.h"
#include "server/rpc/unary_handler.h"

namespace qgemm {
namespace {

// Calls that a queue waits for at one time, so that a burst meets open arms.
constexpr int kGemmCallsAwaited = 64;  // and of Echo, its yardstick
constexpr int kOtherCallsAwaited = 4;

// How long no client may have sent a call before the server shuts down, and
// how long that is awaited: some round trips of a local connection.
constexpr absl::Duration kQuiet = absl::Milliseconds(50);
constexpr absl::Duration kQuietLimit = absl::Milliseconds(500);
// From the start of the shutdown until every connection has been told.
constexpr absl::Duration kGoodbye = absl::Milliseconds(20);

}  // namespace

class QgemmService::Handlers {
 public:
  explicit Handlers(RpcEnvironment environment)
      : answerers_(environment.options.answer_threads),
        environment_(Complete(std::move(environment), this)),
        queries_(&environment_),
        gemm_(&environment_),
        stream_(&environment_),
        load_(&environment_),
        unload_(&environment_, &service_, "UnloadWeights",
                &AsyncQgemm::RequestUnloadWeights,
                [this](const auto& request, auto* response) {
                  return queries_.Unload(request, response);
                }),
        list_(&environment_, &service_, "ListWeights",
              &AsyncQgemm::RequestListWeights,
              [this](const auto& request, auto* response) {
                return queries_.List(request, response);
              }),
        get_(&environment_, &service_, "GetWeights",
             &AsyncQgemm::RequestGetWeights,
             [this](const auto& request, auto* response) {
               return queries_.Get(request, response);
             }),
        info_(&environment_, &service_, "GetServerInfo",
              &AsyncQgemm::RequestGetServerInfo,
              [this](const auto& request, auto* response) {
                return queries_.ServerInfo(request, response);
              }),
        debug_(&environment_),
        not_offered_(&live_calls_),
        health_(&live_calls_, v1::Qgemm::service_full_name()) {}

  void Register(grpc::ServerBuilder* builder) {
    builder->RegisterService(&service_);
    debug_.Register(builder);
    not_offered_.Register(builder);
    health_.Register(builder);
    for (int i = 0; i < environment_.options.completion_queues; ++i) {
      queues_.push_back(
          std::make_unique<CompletionQueue>(builder->AddCompletionQueue()));
    }
  }

  void Start() {
    for (const std::unique_ptr<CompletionQueue>& queue : queues_) {
      for (int i = 0; i < kGemmCallsAwaited; ++i) gemm_.Accept(queue.get());
      for (int i = 0; i < kOtherCallsAwaited; ++i) {
        stream_.Accept(queue.get());
        load_.Accept(queue.get());
        unload_.Accept(queue.get());
        list_.Accept(queue.get());
        get_.Accept(queue.get());
        info_.Accept(queue.get());
        health_.Accept(queue.get());
        not_offered_.Accept(queue.get());
      }
      debug_.Accept(queue.get(), kGemmCallsAwaited, kOtherCallsAwaited);
      queue->Start();
    }
    health_.SetServing(true);
  }

  void BeginDrain() {
    health_.SetServing(false);
    live_calls_.BeginDrain();
    load_.EndUploads();
    stream_.BeginDrain();
  }

  void ShutDown(absl::AnyInvocable<void()> shut_down_server) {
    health_.EndWatches();
    live_calls_.HoldRefusals(kQuiet, kQuietLimit);
    std::thread release([this] {
      absl::SleepFor(kGoodbye);
      live_calls_.ReleaseRefusals();
    });
    shut_down_server();
    release.join();
  }

  void Join() {
    live_calls_.WaitUntilNone();
    for (const auto& queue : queues_) queue->ShutDown();
  }

 private:
  template <typename Request, typename Response>
  using Query = UnaryHandler<AsyncQgemm, Request, Response>;

  static RpcEnvironment Complete(RpcEnvironment environment, Handlers* self) {
    environment.live_calls = &self->live_calls_;
    environment.answerers = &self->answerers_;
    environment.service = &self->service_;
    return environment;
  }

  LiveCalls live_calls_;
  WorkerPool answerers_;
  AsyncQgemm service_;
  const RpcEnvironment environment_;
  const Queries queries_;
  GemmHandler gemm_;
  GemmStreamHandler stream_;
  LoadWeightsHandler load_;
  Query<v1::UnloadWeightsRequest, v1::UnloadWeightsResponse> unload_;
  Query<v1::ListWeightsRequest, v1::ListWeightsResponse> list_;
  Query<v1::GetWeightsRequest, v1::GetWeightsResponse> get_;
  Query<v1::GetServerInfoRequest, v1::GetServerInfoResponse> info_;
  DebugService debug_;
  NotOfferedService not_offered_;
  HealthService health_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
};

QgemmService::QgemmService(RpcEnvironment environment)
    : handlers_(std::make_unique<Handlers>(std::move(environment))) {}
QgemmService::~QgemmService() = default;
void QgemmService::Register(grpc::ServerBuilder* builder) {
  handlers_->Register(builder);
}
void QgemmService::Start() { handlers_->Start(); }
void QgemmService::BeginDrain() { handlers_->BeginDrain(); }
void QgemmService::ShutDown(absl::AnyInvocable<void()> shut_down_server) {
  handlers_->ShutDown(std::move(shut_down_server));
}
void QgemmService::Join() { handlers_->Join(); }

}  // namespace qgemm
