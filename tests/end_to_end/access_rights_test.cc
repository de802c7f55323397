// SPDX-License-Identifier: Apache-2.0
//
// Every RPC that the server has, for every kind of client: by tokens, and by
// the user over a Unix socket.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/end_to_end/access_server.h"
#include "tests/end_to_end/raw_call.h"

namespace qgemm {
namespace {

using ::google::protobuf::DescriptorPool;
using ::google::protobuf::Message;
using ::google::protobuf::MessageFactory;
using ::google::protobuf::ServiceDescriptor;
using ::testing::UnorderedElementsAreArray;

// Clients with one right each, one with none, and one that the table lacks.
constexpr const char* kRoles[] = {"compute", "load", "admin", "debug", "none"};
constexpr char kStranger[] = "stranger";

using Roles = std::set<std::string>;
const Roles kEverybody = {"compute", "load", "admin",
                          "debug",   "none", kStranger};
const Roles kAnyClient = {"compute", "load", "admin", "debug", "none"};
const Roles kReaders = {"compute", "load"};

// Those that may call each method. A new RPC has a line here, and its right in
// the server.
const std::map<std::string, Roles>& Allowed() {
  static const auto* const allowed = new std::map<std::string, Roles>{
      {"qgemm.v1.Qgemm.Gemm", {"compute"}},
      {"qgemm.v1.Qgemm.GemmStream", {"compute"}},
      {"qgemm.v1.Qgemm.Run", {"compute"}},
      {"qgemm.v1.Qgemm.LoadWeights", {"load"}},
      {"qgemm.v1.Qgemm.QueryUpload", {"load"}},
      {"qgemm.v1.Qgemm.FindMissingWeights", kReaders},
      {"qgemm.v1.Qgemm.PinWeights", {"load"}},
      {"qgemm.v1.Qgemm.TouchWeights", kReaders},
      {"qgemm.v1.Qgemm.UnloadWeights", {"load"}},
      {"qgemm.v1.Qgemm.ListWeights", kReaders},
      {"qgemm.v1.Qgemm.GetWeights", kReaders},
      {"qgemm.v1.Qgemm.LoadProgram", {"load"}},
      {"qgemm.v1.Qgemm.UnloadProgram", {"load"}},
      {"qgemm.v1.Qgemm.ListPrograms", kReaders},
      {"qgemm.v1.Qgemm.GetProgram", kReaders},
      {"qgemm.v1.Qgemm.GetServerInfo", kAnyClient},
      {"qgemm.v1.QgemmDebug.Echo", {"debug"}},
      {"qgemm.v1.QgemmDebug.Freeze", {"debug"}},
      {"qgemm.v1.QgemmDebug.InjectFault", {"debug"}},
      {"grpc.health.v1.Health.Check", kEverybody},
      {"grpc.health.v1.Health.Watch", kEverybody},
      {"grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo",
       {"debug"}},
      {"grpc.channelz.v1.Channelz.GetTopChannels", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetServers", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetServer", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetServerSockets", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetChannel", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetSubchannel", {"debug"}},
      {"grpc.channelz.v1.Channelz.GetSocket", {"debug"}},
  };
  return *allowed;
}

std::string PathOf(const std::string& method) {
  const size_t dot = method.rfind('.');
  return absl::StrCat("/", method.substr(0, dot), "/", method.substr(dot + 1));
}

std::vector<std::string> RightsOf(const std::string& role) {
  if (role == "none") return {};
  return {role};
}

void ExpectOutcome(const grpc::Status& status, const std::string& method,
                   const std::string& role) {
  const bool allowed = Allowed().at(method).count(role) > 0;
  const grpc::StatusCode refusal = role == kStranger
                                       ? grpc::StatusCode::UNAUTHENTICATED
                                       : grpc::StatusCode::PERMISSION_DENIED;
  if (!allowed) {
    EXPECT_EQ(status.error_code(), refusal)
        << method << " by " << role << ": " << status.error_message();
    return;
  }
  EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
      << method << " by " << role << ": " << status.error_message();
  EXPECT_NE(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
      << method << " by " << role << ": " << status.error_message();
}

std::string TokenTable() {
  std::vector<TableClient> clients;
  for (const std::string role : kRoles) {
    clients.push_back({role, {MatchToken(role)}, RightsOf(role)});
  }
  return TableOf(clients);
}

std::unique_ptr<Message> NewMessage(const std::string& type) {
  const auto* const descriptor =
      DescriptorPool::generated_pool()->FindMessageTypeByName(type);
  EXPECT_NE(descriptor, nullptr) << type;
  return std::unique_ptr<Message>(
      MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
}

// The services that a server says it has, by reflection.
std::vector<std::string> ServicesOf(const Client& client) {
  grpc::ClientContext context;
  AddTo(WithToken("debug"), &context);
  const RawAnswer answer = StreamRaw(
      client.channel(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "\x3a\x01*", &context);  // list_services = 7
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  const auto response =
      NewMessage("grpc.reflection.v1alpha.ServerReflectionResponse");
  EXPECT_TRUE(response->ParseFromString(answer.bytes));
  const auto& list = response->GetReflection()->GetMessage(
      *response,
      response->GetDescriptor()->FindFieldByName("list_services_response"));
  const auto* const services = list.GetDescriptor()->FindFieldByName("service");
  std::vector<std::string> names;
  for (int i = 0; i < list.GetReflection()->FieldSize(list, services); ++i) {
    const Message& service =
        list.GetReflection()->GetRepeatedMessage(list, services, i);
    names.push_back(service.GetReflection()->GetString(
        service, service.GetDescriptor()->FindFieldByName("name")));
  }
  return names;
}

TEST(AccessRights, EveryMethodOfTheServerIsInTheTableAbove) {
  AccessServer server(TokenTable());
  std::vector<std::string> methods;
  for (const std::string& name : ServicesOf(server.NewTcpClient())) {
    const ServiceDescriptor* const service =
        DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      methods.push_back(service->method(i)->full_name());
    }
  }
  std::vector<std::string> listed;
  for (const auto& [method, unused] : Allowed()) listed.push_back(method);
  EXPECT_THAT(methods, UnorderedElementsAreArray(listed));
}

TEST(AccessRights, OfEveryRoleForEveryRpcByTokens) {
  AccessServer server(TokenTable());
  const Client client = server.NewTcpClient();
  for (const auto& [method, unused] : Allowed()) {
    for (const std::string role : kRoles) {
      ExpectOutcome(Call(client.channel(), PathOf(method), WithToken(role)),
                    method, role);
    }
    ExpectOutcome(
        Call(client.channel(), PathOf(method), WithToken("no such token")),
        method, kStranger);
    ExpectOutcome(Call(client.channel(), PathOf(method)), method, kStranger);
  }
}

TEST(AccessRights, OfEveryRoleForEveryRpcByTheUserOfASocket) {
  for (const std::string role : kRoles) {
    AccessServer server(TableOf({{role, {MatchThisUser()}, RightsOf(role)}}));
    const Client client = server.NewUnixClient();
    for (const auto& [method, unused] : Allowed()) {
      ExpectOutcome(Call(client.channel(), PathOf(method)), method, role);
    }
  }
}

TEST(AccessRights, AMethodThatTheServerLacksIsNobodys) {
  AccessServer server(TokenTable());
  const Client client = server.NewTcpClient();
  EXPECT_EQ(Call(client.channel(), "/qgemm.v1.Qgemm/Steal", WithToken("admin"))
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(AccessRights, WithoutATableNobodyIsAsked) {
  ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  auto server = Server::Create(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const Client client((*server)->addresses().front());
  const Metadata token = WithToken("no such token");
  for (const char* const path :
       {"/qgemm.v1.Qgemm/ListWeights", "/qgemm.v1.Qgemm/GetServerInfo"}) {
    EXPECT_TRUE(Call(client.channel(), path, token).ok()) << path;
  }
}

}  // namespace
}  // namespace qgemm
