// SPDX-License-Identifier: Apache-2.0
//
// Start and drain. Members are destroyed in the reverse order of their
// declaration: users before their dependencies.

#include "server/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/backends/backends.h"
#include "server/access/access_control.h"
#include "server/health/health.h"
#include "server/health/health_monitor.h"
#include "server/lane/lane_service.h"
#include "server/metrics/metrics_endpoint.h"
#include "server/metrics/server_metrics.h"
#include "server/net/accept_loop.h"
#include "server/net/grpc_settings.h"
#include "server/net/listen.h"
#include "server/net/listener.h"
#include "server/net/peer_table.h"
#include "server/part_options.h"
#include "server/programs/program_store.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/qgemm_service.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/scheduling/parked_requests.h"
#include "server/tls/tls_credentials.h"
#include "server/weights/layer_loader.h"
#include "server/weights/weight_store.h"

namespace qgemm {
namespace {

// Time that launches in flight have when a drain ends.
constexpr absl::Duration kLaunchPatience = absl::Seconds(2);

// Time that clients have to close their connections once all calls have ended;
// then the server closes them.
constexpr absl::Duration kConnectionGracePeriod = absl::Seconds(1);

bool HasTls(const Listener& listener) {
  return listener.address().kind == ListenAddress::Kind::kTls;
}

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, std::unique_ptr<Backend> backend,
             OpenedState state)
      : options_(options),
        access_(options.access_table.empty()
                    ? nullptr
                    : std::make_unique<AccessControl>(options.access_table,
                                                      &metrics_)),
        backend_(std::move(backend)),
        state_(std::move(state)),
        store_({WeightsBudget(options, *backend_), options.max_layers,
                options.max_names},
               &metrics_,
               {state_.directory.get(), &clock_, options.pin_names,
                options.eviction, state_.kept.get()}),
        loader_(state_.directory == nullptr
                    ? nullptr
                    : std::make_unique<LayerLoader>(backend_.get(), &store_,
                                                    ToLoaderOptions(options))),
        upkeep_(loader_ == nullptr
                    ? nullptr
                    : std::make_unique<StateUpkeep>(options, backend_.get(),
                                                    &store_, loader_.get())),
        programs_({options.max_programs, options.max_program_names}, &store_,
                  &metrics_),
        dispatcher_(backend_.get(), &clock_, &metrics_),
        scheduler_(ToSchedulerOptions(options, backend_->limits()),
                   &dispatcher_, &clock_, &metrics_),
        parked_(MakeParked()),
        service_(ToRpcOptions(options), MakeParts()),
        monitor_(ToMonitorOptions(options), MakeHealthSources(), &clock_,
                 [this](const Health& health) { TakeHealth(health); }) {
    metrics_.SampleMemory([backend = backend_.get()] {
      const BackendMemory memory = backend->memory();
      return MemoryFigures{memory.weights_bytes, memory.staging_bytes,
                           memory.staging_leased_bytes};
    });
    if (loader_ != nullptr) {
      metrics_.SampleState([this] { return store_.state_figures(); });
      metrics_.StateFilesDamaged(state_.directory->recovery().damaged_files);
    }
    const BackendDescription description = backend_->describe();
    metrics_.SetBuildInfo(
        {kVersion, description.name, description.device, description.detail});
    metrics_.SetMemoryLimits(StagingBytes(options), MemoryLimitBytes());
  }

  ~GrpcServer() override {
    Drain(clock_.Now());
    metrics_.SampleMemory(nullptr);
    metrics_.SampleState(nullptr);
  }

  absl::Status Start() {
    if (access_ != nullptr) RETURN_IF_ERROR(access_->Start());
    RETURN_IF_ERROR(OpenLanes());
    RETURN_IF_ERROR(store_.Restore());
    InheritLayers(options_, state_, &store_, &metrics_);
    RETURN_IF_ERROR(Listen());
    if (!options_.metrics_listen.empty()) {
      ASSIGN_OR_RETURN(const std::string listen,
                       ResolveMetricsListen(options_.metrics_listen));
      ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Start(listen, &metrics_,
                                                         MakeGpuSampler()));
    }
    if (loader_ != nullptr) loader_->Start();
    if (upkeep_ != nullptr) upkeep_->Start();
    service_.Start();
    if (lanes_ != nullptr) lanes_->Start();
    serving_ = true;
    accept_loop_->Start();
    monitor_.SetStarted();
    monitor_.Start();
    return absl::OkStatus();
  }

  BackendDescription backend() const override { return backend_->describe(); }

  const std::vector<std::string>& addresses() const override {
    return addresses_;
  }
  const std::vector<int>& ports() const override { return ports_; }
  int metrics_port() const override {
    return endpoint_ == nullptr ? 0 : endpoint_->port();
  }

  void AnnounceDrain() override { monitor_.SetDraining(); }

  void Drain(absl::Time deadline) override {
    MutexLock lock(&drain_mutex_);
    if (drained_) return;
    drained_ = true;
    monitor_.SetDraining();
    if (serving_) service_.BeginDrain();
    if (lanes_ != nullptr) lanes_->BeginDrain(LiveCalls::Draining());
    if (parked_ != nullptr) parked_->Drain();
    if (upkeep_ != nullptr) upkeep_->Stop();
    if (loader_ != nullptr) loader_->Stop();
    scheduler_.Drain(failure().ok() ? deadline : clock_.Now());
    EndLaunches();
    dispatcher_.WaitForCompletions();
    if (lanes_ != nullptr) lanes_->Stop();
    if (serving_) {
      // Every accepted call has its answer; only clients that are slow to close
      // their connections are left.
      service_.ShutDown([this] {
        accept_loop_->Stop();
        server_->Shutdown(
            absl::ToChronoTime(absl::Now() + kConnectionGracePeriod));
      });
    } else if (server_ != nullptr) {
      server_->Shutdown();
    }
    service_.Join();
    if (state_.kept != nullptr) state_.kept->Freeze();
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

  void ObserveHealth(std::function<void(const Health&)> observe) override {
    monitor_.Observe(std::move(observe));
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
    sources.backend_progress = [this] { return backend_->progress(); };
    if (loader_ != nullptr) {
      sources.awaited_layers = [this] {
        return AwaitedLayers(options_.ready, loader_->loading());
      };
    }
    if (!options_.ready_names.empty()) {
      sources.missing_name = [this] { return MissingName(); };
    }
    sources.probe_listeners = [this] {
      return accept_loop_ == nullptr ? absl::OkStatus()
                                     : accept_loop_->ProbeListeners();
    };
    return sources;
  }

  // One of --ready_names that neither weights nor a program has.
  std::string MissingName() const {
    for (const std::string& name : options_.ready_names) {
      constexpr const Principal* kServer = nullptr;  // sees every name
      if (!store_.Find(kServer, name).ok() &&
          !programs_.Find(kServer, name).ok()) {
        return name;
      }
    }
    return "";
  }

  // Whoever sees a fatal state meets no call that is still answered.
  void TakeHealth(const Health& health) {
    if (health.is_fatal) EndCalls(absl::UnavailableError(health.reason));
    metrics_.SetHealth(health.state, health.reason);
    service_.SetHealth(health);
    if (health.is_fatal) NotifyOfFailure();
  }

  // Those in a launch too. Waits for nothing.
  void EndCalls(const absl::Status& reason) {
    backend_->GiveUp(reason);
    if (serving_) service_.Fail(reason);
    if (lanes_ != nullptr) lanes_->BeginDrain(reason);
    dispatcher_.Fail(reason);
    if (parked_ != nullptr) parked_->Drain();
    scheduler_.Drain(clock_.Now());
  }

  void NotifyOfFailure() {
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
    return {backend_.get(), &store_,      &scheduler_, &metrics_,
            &clock_,        &peers_,      &programs_,  access_.get(),
            loader_.get(),  parked_.get()};
  }

  std::unique_ptr<ParkedRequests> MakeParked() {
    if (loader_ == nullptr) return nullptr;
    return std::make_unique<ParkedRequests>(
        ParkedRequests::Parts{backend_.get(), loader_.get(), &scheduler_,
                              &clock_},
        options_.scheduler.max_queued_requests);
  }

  // The other backends use no GPU, whatever the host has.
  std::unique_ptr<GpuSampler> MakeGpuSampler() const {
    if (backend_->describe().name != "cuda") return nullptr;
    return std::make_unique<GpuSampler>();
  }

  absl::Status OpenLanes() {
    if (options_.lane_listen.empty()) return absl::OkStatus();
    LaneOptions lane = ToLaneOptions(options_);
    ASSIGN_OR_RETURN(lane.socket_file, ToSocketFile(options_));
    ASSIGN_OR_RETURN(
        lanes_, LaneService::Create(
                    lane, {backend_.get(), &store_, &programs_, &scheduler_,
                           &metrics_, &clock_, &peers_, access_.get(),
                           parked_.get(), options_.allow_device_operands}));
    return absl::OkStatus();
  }

  absl::Status Listen() {
    ASSIGN_OR_RETURN(std::vector<Listener> listeners, OpenListeners(options_));
    for (const Listener& listener : listeners) {
      const ListenAddress& address = listener.address();
      if (address.kind != ListenAddress::Kind::kUnix) {
        ports_.push_back(address.port);
      }
      addresses_.push_back(address.ToString());
    }
    if (std::any_of(listeners.begin(), listeners.end(), HasTls)) {
      ASSIGN_OR_RETURN(tls_, TlsCredentials::Create(options_.tls, &metrics_));
    }
    RegisterGrpcServices();
    grpc::ServerBuilder builder;
    service_.Register(&builder);
    Configure(options_.grpc, options_.max_message_bytes, &builder);
    acceptor_ = AddAcceptor(grpc::InsecureServerCredentials(), &builder);
    if (tls_ != nullptr) {
      tls_acceptor_ = AddAcceptor(tls_->credentials(), &builder);
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::InternalError("gRPC cannot start a server");
    }
    accept_loop_ = std::make_unique<AcceptLoop>(
        std::move(listeners), FittedLimits(options_),
        AcceptLoop::Parts{&peers_, &metrics_, &clock_},
        [this](const Listener& listener, int fd) { HandOver(listener, fd); });
    return absl::OkStatus();
  }

  // gRPC owns the descriptor from here on, whether it serves it or not.
  void HandOver(const Listener& listener, int fd) {
    ConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener.fd();
    connection.fd = fd;
    (HasTls(listener) ? tls_acceptor_ : acceptor_)
        ->HandleNewConnection(&connection);
  }

  const ServerOptions options_;
  const SystemClock clock_;
  ServerMetrics metrics_;
  PeerTable peers_{&metrics_};
  const std::unique_ptr<AccessControl> access_;  // null: no table
  const std::unique_ptr<Backend> backend_;
  const OpenedState state_;
  WeightStore store_;
  const std::unique_ptr<LayerLoader> loader_;  // null: no state directory
  const std::unique_ptr<StateUpkeep> upkeep_;  // the same
  ProgramStore programs_;
  BatchDispatcher dispatcher_;
  BatchScheduler scheduler_;
  const std::unique_ptr<ParkedRequests> parked_;  // null: no state directory
  QgemmService service_;
  std::unique_ptr<LaneService> lanes_;   // null without --lane_listen
  std::unique_ptr<TlsCredentials> tls_;  // null without such an address
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<ConnectionAcceptor> tls_acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<AcceptLoop> accept_loop_;
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
    const ServerOptions& options, std::unique_ptr<DescriptorHolder> holder) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   CreateBackend(ToBackendOptions(options)));
  return Create(options, std::move(backend), std::move(holder));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options, std::unique_ptr<Backend> backend,
    std::unique_ptr<DescriptorHolder> holder) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(OpenedState state,
                   OpenState(options, std::move(holder), backend.get()));
  auto server = std::make_unique<GrpcServer>(options, std::move(backend),
                                             std::move(state));
  RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace qgemm
