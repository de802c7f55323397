// SPDX-License-Identifier: Apache-2.0
//
// Prints what the gate of the access table adds to a call, in nanoseconds: a
// server over a Unix socket asks it about calls of one client, once each as
// qgemm_server does, beside a gate without a table. The clock's own cost is
// taken off.
//
// Usage: call_gate_bench

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sha256.h"
#include "server/access/access_control.h"
#include "server/metrics/server_metrics.h"
#include "server/net/peer_table.h"
#include "server/rpc/call_gate.h"

namespace qgemm {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kCalls = 5000;
constexpr Rpc kRpc = {"Gemm", RpcAccess::Needs(Right::kCompute)};

int64_t NanosecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             SteadyClock::now() - start)
      .count();
}

int64_t Percentile(std::vector<int64_t> values, int percent) {
  std::sort(values.begin(), values.end());
  return values[values.size() * percent / 100];
}

int64_t ClockCost() {
  std::vector<int64_t> costs;
  for (int i = 0; i < kCalls; ++i) {
    costs.push_back(NanosecondsSince(SteadyClock::now()));
  }
  return Percentile(std::move(costs), 50);
}

// Runs `look` with the context of each of kCalls calls with that metadata.
class Calls {
 public:
  using Look = std::function<void(const grpc::ServerContextBase&)>;

  Calls() {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
  }
  ~Calls() {
    server_->Shutdown();
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) {
    }
  }

  void Run(const std::string& authorization, const Look& look) {
    std::thread client([&] { Call(authorization); });
    for (int i = 0; i < kCalls; ++i) {
      grpc::GenericServerContext context;
      grpc::GenericServerAsyncReaderWriter stream(&context);
      service_.RequestCall(&context, &stream, queue_.get(), queue_.get(), this);
      Wait();
      look(context);
      stream.Finish(grpc::Status::OK, this);
      Wait();
    }
    client.join();
  }

 private:
  void Wait() {
    void* tag;
    bool ok = false;
    CHECK(queue_->Next(&tag, &ok) && ok);
  }

  void Call(const std::string& authorization) const {
    grpc::GenericStub stub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    for (int i = 0; i < kCalls; ++i) {
      grpc::ClientContext context;
      if (!authorization.empty()) {
        context.AddMetadata("authorization", authorization);
      }
      const auto call =
          stub.PrepareUnaryCall(&context, "/q/Q", grpc::ByteBuffer(), &queue);
      call->StartCall();
      grpc::ByteBuffer answer;
      grpc::Status status;
      call->Finish(&answer, &status, nullptr);
      void* tag;
      bool ok;
      queue.Next(&tag, &ok);
    }
  }

  const std::string address_ =
      absl::StrCat("unix:/tmp/call_gate_bench_", getpid());
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

// Enters the connection that the calls come over, as the accept loop does.
void Enter(PeerTable* peers, Calls* calls) {
  calls->Run("", [peers, entered = false](const auto& context) mutable {
    if (entered) return;
    entered = true;
    auto peer = std::make_shared<Peer>();
    peer->identity = "uid";
    peer->user = 1000;
    peers->Insert(context.peer(), std::move(peer));
  });
}

void Measure(const char* name, const CallGate& gate,
             const std::string& authorization, Calls* calls) {
  const int64_t clock = ClockCost();
  std::vector<int64_t> costs;
  calls->Run(authorization, [&](const grpc::ServerContextBase& context) {
    const auto start = SteadyClock::now();
    const CallGate::Admission admission = gate.Admit(kRpc, context);
    costs.push_back(NanosecondsSince(start) - clock);
    CHECK_OK(admission.status);
  });
  const int64_t first = costs.front();
  std::printf("%-24s median %5lld ns   p90 %5lld ns   first %6lld ns\n", name,
              static_cast<long long>(Percentile(costs, 50)),
              static_cast<long long>(Percentile(costs, 90)),
              static_cast<long long>(first));
}

std::string WriteTable(const std::string& token) {
  Sha256 hash;
  hash.Update(token);
  const std::string path =
      absl::StrCat("/tmp/call_gate_bench_", getpid(), ".json");
  std::ofstream(path) << R"({"clients": [{"id": "user", "rights": ["compute"],
      "match": [{"uid": 1000}]}, {"id": "token", "rights": ["compute"],
      "match": [{"token_sha256": ")"
                      << ToHex(hash.Finish()) << "\"}]}]}";
  return path;
}

int Run() {
  const std::string token(64, 't');
  const std::string path = WriteTable(token);
  ServerMetrics metrics;
  PeerTable peers;
  AccessControl access(path, &metrics);
  CHECK_OK(access.Reload());
  CHECK_EQ(unlink(path.c_str()), 0);
  const CallGate without(nullptr, &peers, &metrics);
  const CallGate with(&access, &peers, &metrics);
  Calls calls;
  Enter(&peers, &calls);
  Measure("no table", without, "", &calls);
  Measure("no table, a token", without, "Bearer " + token, &calls);
  Measure("by the user", with, "", &calls);
  Measure("by a token", with, "Bearer " + token, &calls);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace qgemm

int main() { return qgemm::Run(); }
