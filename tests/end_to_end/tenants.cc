// SPDX-License-Identifier: Apache-2.0
//
// Tokens go into the metadata by an interceptor: gRPC takes call credentials
// over secure channels alone.

#include "tests/end_to_end/tenants.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

std::string TokenOf(const std::string& id) { return id + "-token"; }

class TokenSender final : public Interceptor {
 public:
  explicit TokenSender(std::string token) : token_(std::move(token)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization",
                                                 "Bearer " + token_);
    }
    methods->Proceed();
  }

 private:
  const std::string token_;
};

class TokenSenders final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(std::string token) : token_(std::move(token)) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo*) override {
    return new TokenSender(token_);
  }

 private:
  const std::string token_;
};

std::string QuotedList(const std::vector<std::string>& texts) {
  return absl::StrCat(
      "[",
      absl::StrJoin(texts, ", ",
                    [](std::string* out, const std::string& text) {
                      absl::StrAppend(out, "\"", text, "\"");
                    }),
      "]");
}

std::string EntryOf(const Tenant& tenant) {
  Sha256 hash;
  hash.Update(TokenOf(tenant.id));
  return absl::StrCat(
      "{\"id\": \"", tenant.id, "\", \"match\": [{\"token_sha256\": \"",
      ToHex(hash.Finish()), "\"}], \"rights\": ", QuotedList(tenant.rights),
      ", \"names\": ", QuotedList(tenant.names),
      ", \"read\": ", QuotedList(tenant.read), ", \"quota\": ", tenant.quota,
      "}");
}

}  // namespace

TenantTable::TenantTable(const std::vector<Tenant>& tenants) {
  const std::string path = folder_.File("access.json");
  std::ofstream file(path);
  file << "{\"clients\": ["
       << absl::StrJoin(tenants, ",\n",
                        [](std::string* out, const Tenant& tenant) {
                          absl::StrAppend(out, EntryOf(tenant));
                        })
       << "]}\n";
  file.close();
  CHECK(file.good());
  CHECK_EQ(chmod(path.c_str(), 0600), 0);
}

ServerOptions TenantTable::In(ServerOptions options) const {
  options.access_table = folder_.File("access.json");
  return options;
}

Client ConnectAs(const std::string& id, const std::string& address) {
  grpc::ChannelArguments arguments;
  // Not one shared connection for all clients of the process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenSenders>(TokenOf(id)));
  return Client(grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), arguments,
      std::move(interceptors)));
}

}  // namespace qgemm
