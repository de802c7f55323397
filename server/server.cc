// SPDX-License-Identifier: Apache-2.0
//
// Start and drain. Members are in the order in which they are made; they go
// in the opposite one.

#include "server/server.h"

#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/backends/backends.h"
#include "server/listen.h"
#include "server/metrics/metrics_endpoint.h"
#include "server/metrics/server_metrics.h"
#include "server/rpc/qgemm_service.h"
#include "server/scheduling/batch_dispatcher.h"
#include "server/weights/weight_store.h"

namespace qgemm {
namespace {

// Calls of one connection at a time; what a client starts beyond waits there.
constexpr int kMaxStreamsPerConnection = 1024;

// How long clients may take to close their connections once all calls have
// ended; they are closed then.
constexpr absl::Duration kHangUp = absl::Seconds(1);

// Longer than any client waits.
constexpr absl::Duration kMaxAgeCap = absl::Minutes(1);

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " = ", value, " is not between ", low, " and ", high));
}

absl::Status CheckStreamLimits(const StreamLimits& limits) {
  constexpr int64_t kMaxBytes = int64_t{1} << 40;
  RETURN_IF_ERROR(
      CheckRange("max_stream_requests", limits.max_requests, 1, 1 << 20));
  RETURN_IF_ERROR(
      CheckRange("max_stream_bytes", limits.max_bytes, 1, kMaxBytes));
  return CheckRange("max_stream_operand_bytes", limits.max_operand_bytes, 1,
                    kMaxBytes);
}

absl::Status CheckSchedulerOptions(const SchedulerOptions& options) {
  constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(CheckRange("max_queued_requests", options.max_queued_requests,
                             1, std::numeric_limits<int32_t>::max()));
  RETURN_IF_ERROR(
      CheckRange("max_queued_bytes", options.max_queued_bytes, 1, kMaxInt64));
  RETURN_IF_ERROR(CheckRange("max_client_queued_rows",
                             options.max_client_queued_rows, 0, kMaxInt64));
  RETURN_IF_ERROR(CheckRange("max_client_queued_bytes",
                             options.max_client_queued_bytes, 0, kMaxInt64));
  const absl::Duration age_cap = options.policy.age_cap;
  if (age_cap < absl::ZeroDuration() || age_cap > kMaxAgeCap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--batch_age_cap = ", absl::FormatDuration(age_cap),
        " is not between 0 and ", absl::FormatDuration(kMaxAgeCap)));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ServerOptions& options) {
  constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  if (options.listen.empty()) {
    return absl::InvalidArgumentError(
        "--listen is empty; name at least one address");
  }
  RETURN_IF_ERROR(CheckRange("threads", options.threads, 0, 4096));
  RETURN_IF_ERROR(CheckRange("weights_budget_bytes",
                             options.weights_budget_bytes, 0, kMaxInt64));
  // gRPC counts a message's bytes in an int.
  RETURN_IF_ERROR(CheckRange("max_message_bytes", options.max_message_bytes,
                             4096, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_n", options.weights_limits.max_n, 1, kMaxInt32));
  RETURN_IF_ERROR(
      CheckRange("max_k", options.weights_limits.max_k, 1, kMaxInt32));
  RETURN_IF_ERROR(CheckRange("max_uploads", options.max_uploads, 1, 64));
  RETURN_IF_ERROR(CheckStreamLimits(options.stream));
  return CheckSchedulerOptions(options.scheduler);
}

// Whether the metrics address stays on this host.
absl::StatusOr<std::string> ResolveMetricsListen(const std::string& text) {
  ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
  if (address.kind != ListenAddress::Kind::kTcp) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_listen = \"", text, "\": expected host:port"));
  }
  ASSIGN_OR_RETURN(address, ResolveLoopback(address));
  return address.ToString();
}

// As many requests in a launch as it has rows at the most.
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

// What the transport takes of the cores; of 16, these gave most requests a
// second (bench/NOTES.md). Each queue has a thread, which reads requests,
// copies their operands and sends answers. Two at the least: with one, calls
// that came while the server shut down were sometimes cancelled instead of
// refused.
int CompletionQueues() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 2, 2, 16);
}
// For long answers and those of streams.
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
  rpc.completion_queues = CompletionQueues();
  rpc.answer_threads = AnswerThreads();
  rpc.enable_echo = options.enable_echo;
  rpc.enable_freeze = options.enable_freeze;
  rpc.version = kVersion;
  return rpc;
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
        service_(ToRpcOptions(options), MakeParts()) {
    metrics_.SampleMemory([backend = backend_.get()] {
      const BackendMemory memory = backend->memory();
      return MemoryFigures{memory.weights_bytes, memory.staging_bytes,
                           memory.staging_leased_bytes};
    });
  }

  ~GrpcServer() override {
    Drain(absl::Now());
    metrics_.SampleMemory(nullptr);
  }

  absl::Status Start() {
    RETURN_IF_ERROR(Listen());
    if (!options_.metrics_listen.empty()) {
      ASSIGN_OR_RETURN(const std::string listen,
                       ResolveMetricsListen(options_.metrics_listen));
      ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Start(listen, metrics_));
    }
    service_.Start();
    serving_ = true;
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
    if (serving_) {
      service_.BeginDrain();
    }
    scheduler_.Drain(deadline);
    dispatcher_.WaitForCompletions();
    if (serving_) {
      // Every accepted call has its answer; what is left are clients that are
      // slow to hang up.
      service_.ShutDown([this] {
        server_->Shutdown(absl::ToChronoTime(absl::Now() + kHangUp));
      });
    } else if (server_ != nullptr) {
      server_->Shutdown();
    }
    service_.Join();
  }

 private:
  ServerParts MakeParts() {
    return {backend_.get(), &store_, &scheduler_, &metrics_, &clock_};
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
    // Of reflection and channelz. Threads that poll beside the completion
    // queues' take events from them, so there is one.
    builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
    builder->SetMaxReceiveMessageSize(
        static_cast<int>(options_.max_message_bytes));
    builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                                kMaxStreamsPerConnection);
  }

  // Two listeners of one server may want one port; the probes saw it free.
  static absl::Status CannotListen(const std::vector<ListenAddress>& listeners,
                                   const std::vector<int>& bound_ports) {
    for (size_t i = 0; i < listeners.size(); ++i) {
      if (bound_ports[i] <= 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("listen on ", listeners[i].ToString(),
                         ": the address is in use or cannot be bound"));
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
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  BackendOptions backend_options;
  backend_options.name = options.backend;
  backend_options.threads = options.threads;
  backend_options.kernel = options.kernel;
  backend_options.row_moves = options.row_moves;
  backend_options.tuning_file = options.tuning_file;
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   CreateBackend(backend_options));
  return Create(options, std::move(backend));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(
    const ServerOptions& options, std::unique_ptr<Backend> backend) {
  RETURN_IF_ERROR(CheckOptions(options));
  // gRPC has these once a process; they join every server built from here on.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
  auto server = std::make_unique<GrpcServer>(options, std::move(backend));
  RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace qgemm
