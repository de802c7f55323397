// SPDX-License-Identifier: Apache-2.0
//
// Start and drain. Members are destroyed in the reverse order of their
// declaration: users before their dependencies.

#include "server/server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/backends/backends.h"
#include "server/health/health.h"
#include "server/health/health_monitor.h"
#include "server/listen.h"
#include "server/metrics/metrics_endpoint.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/rpc/qgemm_service.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/weights/weight_store.h"

namespace qgemm {
namespace {

// Concurrent calls of one connection; a client holds back further ones.
constexpr int kMaxStreamsPerConnection = 1024;

// Time that launches in flight have when a drain ends.
constexpr absl::Duration kLaunchPatience = absl::Seconds(2);

// Time that clients have to close their connections once all calls have ended;
// then the server closes them.
constexpr absl::Duration kConnectionGracePeriod = absl::Seconds(1);

// Returns the numeric address of --metrics_listen; an error unless it is a
// loopback one.
absl::StatusOr<std::string> ResolveMetricsListen(const std::string& text) {
  ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
  if (address.kind != ListenAddress::Kind::kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_listen = \"", text,
                     "\" is not host:port; the endpoint serves TCP only"));
  }
  ASSIGN_OR_RETURN(address, ResolveLoopback(address));
  return address.ToString();
}

// A launch may hold as many requests as rows: each has at least one.
SchedulerOptions ToSchedulerOptions(const ServerOptions& options,
                                    const BackendLimits& limits) {
  SchedulerOptions scheduler = options.scheduler;
  scheduler.policy.tile_rows = limits.tile_rows;
  BatchingOptions& batching = scheduler.batching;
  batching.max_rows = limits.merge_rows;
  batching.max_requests = options.batching ? batching.max_rows : 1;
  batching.chunks = {limits.chunk_rows, limits.chunk_multiply_adds};
  return scheduler;
}

// The transport's share of the cores; on 16, half gave most requests a second
// (bench/NOTES.md). Each queue has a thread, which reads requests, copies their
// operands and sends answers. At least two: with one, calls that came while the
// server shut down were sometimes cancelled instead of refused.
int CompletionQueues() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 2, 2, 16);
}
// Threads for long answers and those of streams.
int AnswerThreads() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 8, 1, 4);
}

RpcOptions ToRpcOptions(const ServerOptions& options) {
  RpcOptions rpc;
  rpc.max_message_bytes = options.max_message_bytes;
  rpc.weights_limits = options.weights_limits;
  rpc.max_uploads = options.max_uploads;
  rpc.stream = options.stream;
  rpc.max_queued_bytes = options.scheduler.max_queued_bytes;
  if (options.max_client_staging_bytes > 0) {
    rpc.max_client_staging_bytes = options.max_client_staging_bytes;
  }
  rpc.max_streams = options.max_streams;
  rpc.progress = {options.idle_timeout, options.min_upload_bytes_per_second};
  rpc.completion_queues = CompletionQueues();
  rpc.answer_threads = AnswerThreads();
  rpc.enable_echo = options.enable_echo;
  rpc.enable_freeze = options.enable_freeze;
  rpc.enable_faults = options.enable_faults;
  rpc.version = kVersion;
  return rpc;
}

HealthMonitorOptions ToMonitorOptions(const ServerOptions& options) {
  HealthMonitorOptions monitor;
  monitor.launch_timeout = options.launch_timeout == absl::ZeroDuration()
                               ? absl::InfiniteDuration()
                               : options.launch_timeout;
  return monitor;
}

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, std::unique_ptr<Backend> backend)
      : options_(options),
        backend_(std::move(backend)),
        store_(options.weights_budget_bytes, &metrics_),
        dispatcher_(backend_.get(), &clock_, &metrics_),
        scheduler_(ToSchedulerOptions(options, backend_->limits()),
                   &dispatcher_, &clock_, &metrics_),
        service_(ToRpcOptions(options), MakeParts()),
        monitor_(ToMonitorOptions(options), MakeHealthSources(), &clock_,
                 [this](const Health& health) { TakeHealth(health); }) {
    metrics_.SampleMemory([backend = backend_.get()] {
      const BackendMemory memory = backend->memory();
      return MemoryFigures{memory.weights_bytes, memory.staging_bytes,
                           memory.staging_leased_bytes};
    });
    const BackendDescription description = backend_->describe();
    metrics_.SetBuildInfo(
        {kVersion, description.name, description.device, description.detail});
  }

  ~GrpcServer() override {
    Drain(clock_.Now());
    metrics_.SampleMemory(nullptr);
  }

  absl::Status Start() {
    RETURN_IF_ERROR(Listen());
    if (!options_.metrics_listen.empty()) {
      ASSIGN_OR_RETURN(const std::string listen,
                       ResolveMetricsListen(options_.metrics_listen));
      ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Start(listen, &metrics_,
                                                         MakeGpuSampler()));
    }
    service_.Start();
    serving_ = true;
    monitor_.SetStarted();
    monitor_.Start();
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override {
    return addresses_;
  }
  const std::vector<int>& ports() const override { return ports_; }
  int metrics_port() const override {
    return endpoint_ == nullptr ? 0 : endpoint_->port();
  }

  void Drain(absl::Time deadline) override {
    MutexLock lock(&drain_mutex_);
    if (drained_) return;
    drained_ = true;
    monitor_.SetDraining();
    if (serving_) service_.BeginDrain();
    scheduler_.Drain(failure().ok() ? deadline : clock_.Now());
    EndLaunches();
    dispatcher_.WaitForCompletions();
    if (serving_) {
      // Every accepted call has its answer; only clients that are slow to close
      // their connections are left.
      service_.ShutDown([this] {
        server_->Shutdown(
            absl::ToChronoTime(absl::Now() + kConnectionGracePeriod));
      });
    } else if (server_ != nullptr) {
      server_->Shutdown();
    }
    service_.Join();
    monitor_.Stop();
  }

  absl::Status failure() const override { return monitor_.failure(); }

  void NotifyOfFailure(absl::AnyInvocable<void()> notify) override {
    {
      MutexLock lock(&failure_mutex_);
      if (!has_failed_) {
        notify_ = std::move(notify);
        return;
      }
    }
    notify();
  }

 private:
  HealthSources MakeHealthSources() {
    HealthSources sources;
    sources.backend_failure = [this] { return backend_->failure(); };
    sources.oldest_launch = [this]() -> std::optional<uint64_t> {
      const std::optional<LaunchInFlight> oldest = dispatcher_.OldestLaunch();
      if (!oldest.has_value()) return std::nullopt;
      return oldest->number;
    };
    return sources;
  }

  void TakeHealth(const Health& health) {
    metrics_.SetHealth(health.state, health.reason);
    service_.SetHealth(health);
    if (health.is_fatal) Fail(absl::UnavailableError(health.reason));
  }

  // Ends every call, those in a launch too. Waits for nothing.
  void Fail(const absl::Status& reason) {
    backend_->GiveUp(reason);
    if (serving_) service_.Fail(reason);
    dispatcher_.Fail(reason);
    scheduler_.Drain(clock_.Now());
    absl::AnyInvocable<void()> notify;
    {
      MutexLock lock(&failure_mutex_);
      has_failed_ = true;
      notify = std::exchange(notify_, nullptr);
    }
    if (notify != nullptr) notify();
  }

  // Gives launches in flight some of the time that a drain leaves for the
  // shutdown; then their requests end without them.
  void EndLaunches() {
    const absl::Duration patience =
        std::min(kLaunchPatience, options_.drain_timeout / 8);
    if (dispatcher_.WaitForLaunches(clock_.Now() + patience)) return;
    dispatcher_.Fail(absl::UnavailableError(
        "the server stopped before the launch of the request ended; retry on "
        "another replica"));
  }

  ServerParts MakeParts() {
    return {backend_.get(), &store_, &scheduler_, &metrics_, &clock_, &peers_};
  }

  // The other backends use no GPU, whatever the host has.
  std::unique_ptr<GpuSampler> MakeGpuSampler() const {
    if (backend_->describe().name != "cuda") return nullptr;
    return std::make_unique<GpuSampler>();
  }

  absl::Status Listen() {
    grpc::ServerBuilder builder;
    std::vector<ListenAddress> listeners;
    std::vector<int> bound_ports(options_.listen.size());
    for (size_t i = 0; i < options_.listen.size(); ++i) {
      ASSIGN_OR_RETURN(ListenAddress address,
                       ParseListenAddress(options_.listen[i]));
      ASSIGN_OR_RETURN(address, ResolveLoopback(address));
      RETURN_IF_ERROR(CheckFree(address));
      builder.AddListeningPort(address.ToString(),
                               grpc::InsecureServerCredentials(),
                               &bound_ports[i]);
      listeners.push_back(std::move(address));
    }
    Configure(&builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return CannotListen(listeners, bound_ports);
    RecordAddresses(std::move(listeners), bound_ports);
    return absl::OkStatus();
  }

  void Configure(grpc::ServerBuilder* builder) {
    service_.Register(builder);
    // One poller for reflection and channelz: threads that poll beside those of
    // the completion queues take events from them.
    builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
    builder->SetMaxReceiveMessageSize(
        static_cast<int>(options_.max_message_bytes));
    builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                                kMaxStreamsPerConnection);
  }

  // Error of a failed start. Two listeners of one server may have asked for one
  // port, which CheckFree saw free for each.
  static absl::Status CannotListen(const std::vector<ListenAddress>& listeners,
                                   const std::vector<int>& bound_ports) {
    for (size_t i = 0; i < listeners.size(); ++i) {
      if (bound_ports[i] <= 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("listen on ", listeners[i].ToString(),
                         ": the address is in use or cannot be bound; choose "
                         "another, or port 0 for a free one"));
      }
    }
    return absl::InternalError("gRPC cannot start a server");
  }

  void RecordAddresses(std::vector<ListenAddress> listeners,
                       const std::vector<int>& bound_ports) {
    for (size_t i = 0; i < listeners.size(); ++i) {
      if (listeners[i].kind == ListenAddress::Kind::kTcp) {
        listeners[i].port = bound_ports[i];
        ports_.push_back(bound_ports[i]);
      }
      addresses_.push_back(listeners[i].ToString());
    }
  }

  const ServerOptions options_;
  const SystemClock clock_;
  ServerMetrics metrics_;
  PeerTable peers_{&metrics_};
  const std::unique_ptr<Backend> backend_;
  WeightStore store_;
  BatchDispatcher dispatcher_;
  BatchScheduler scheduler_;
  QgemmService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
  std::vector<std::string> addresses_;
  std::vector<int> ports_;
  bool serving_ = false;
  Mutex drain_mutex_;
  bool drained_ ABSL_GUARDED_BY(drain_mutex_) = false;
  Mutex failure_mutex_;
  bool has_failed_ ABSL_GUARDED_BY(failure_mutex_) = false;
  absl::AnyInvocable<void()> notify_ ABSL_GUARDED_BY(failure_mutex_);
  HealthMonitor monitor_;  // looks at all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   CreateBackend(options.backend));
  return Create(options, std::move(backend));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options, std::unique_ptr<Backend> backend) {
  RETURN_IF_ERROR(Validate(options));
  // Registered once per process; they join every server built from here on.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
  auto server = std::make_unique<GrpcServer>(options, std::move(backend));
  RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace qgemm
