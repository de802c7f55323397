// SPDX-License-Identifier: Apache-2.0
//
// A server's interceptor can look at a call but not end it: gRPC's core can,
// and sends the status of a call that the server cancels (1.51,
// chttp2_transport.cc, close_from_api).

#include "server/rpc/service_guard.h"

#include <grpc/grpc.h>
#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace qgemm {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

absl::string_view MethodOf(const ServerRpcInfo& info) {
  const absl::string_view path = info.method();
  return path.substr(path.rfind('/') + 1);
}

// Guards one call.
class Guard final : public Interceptor {
 public:
  Guard(const CallGate* gate, ServerRpcInfo* info) : gate_(gate), info_(info) {}

  // The handler runs in any case; of a cancelled call gRPC sends nothing.
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA) ||
        (methods->QueryInterceptionHookPoint(
             InterceptionHookPoints::POST_RECV_MESSAGE) &&
         !gate_->IsCurrent(generation_))) {
      Ask();
    }
    methods->Proceed();
  }

 private:
  void Ask() {
    const Rpc rpc = {MethodOf(*info_), RpcAccess::Needs(Right::kDebug)};
    grpc::ServerContextBase* const context = info_->server_context();
    const CallGate::Admission admission = gate_->Admit(rpc, *context);
    generation_ = admission.generation;
    if (admission.status.ok()) return;
    const std::string message(admission.status.message());
    grpc_call_cancel_with_status(
        context->c_call(),
        static_cast<grpc_status_code>(admission.status.code()), message.c_str(),
        nullptr);
  }

  const CallGate* const gate_;
  ServerRpcInfo* const info_;
  uint64_t generation_ = 0;  // of the table that admitted the call
};

class GuardFactory final : public ServerInterceptorFactoryInterface {
 public:
  explicit GuardFactory(const CallGate* gate) : gate_(gate) {}

  // Calls of our services ask the gate themselves; those of methods that the
  // server lacks come here as "unknown".
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const absl::string_view path = info->method();
    if (!absl::StartsWith(path, "/") || absl::StartsWith(path, "/qgemm.v1.") ||
        absl::StartsWith(path, "/grpc.health.v1.")) {
      return nullptr;
    }
    return new Guard(gate_, info);  // gRPC owns it
  }

 private:
  const CallGate* const gate_;
};

}  // namespace

void GuardGrpcServices(const CallGate* gate, grpc::ServerBuilder* builder) {
  std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<GuardFactory>(gate));
  builder->experimental().SetInterceptorCreators(std::move(factories));
}

}  // namespace qgemm
