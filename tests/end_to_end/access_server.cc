// SPDX-License-Identifier: Apache-2.0

#include "tests/end_to_end/access_server.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sha256.h"

namespace qgemm {
namespace {

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", text, "\"");
}

std::string EntryOf(const TableClient& client) {
  const std::string head =
      absl::StrCat("{\"id\": ", Quoted(client.id), ", \"match\": [",
                   absl::StrJoin(client.matches, ", "), "], ");
  if (client.is_proxy) return absl::StrCat(head, "\"proxy\": true}");
  std::vector<std::string> rights;
  for (const std::string& right : client.rights) {
    rights.push_back(Quoted(right));
  }
  return absl::StrCat(head, "\"names\": [\"\"], \"rights\": [",
                      absl::StrJoin(rights, ", "), "]}");
}

// Waits for the one operation in flight; false if it failed.
bool Wait(grpc::CompletionQueue* queue) {
  void* tag;
  bool ok = false;
  return queue->Next(&tag, &ok) && ok;
}

// Connects as that user, as which the thread then ends; -1 if it may not.
int ConnectAs(uid_t user, const std::string& path) {
  // The C library's function would change every thread's user.
  if (syscall(SYS_setresuid, -1, user, -1) != 0) return -1;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_GE(fd, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  CHECK_LT(path.copy(address.sun_path, sizeof(address.sun_path)),
           sizeof(address.sun_path));
  CHECK_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  return fd;
}

}  // namespace

std::string MatchToken(const std::string& token) {
  Sha256 hash;
  hash.Update(token);
  return MatchName("token_sha256", ToHex(hash.Finish()));
}

std::string MatchUser(int user) {
  return absl::StrCat("{\"uid\": ", user, "}");
}

std::string MatchThisUser() { return MatchUser(static_cast<int>(geteuid())); }

std::string MatchName(const std::string& kind, const std::string& name) {
  return absl::StrCat("{", Quoted(kind), ": ", Quoted(name), "}");
}

std::string TableOf(const std::vector<TableClient>& clients) {
  std::vector<std::string> entries;
  for (const TableClient& client : clients) entries.push_back(EntryOf(client));
  return absl::StrCat("{\"clients\": [", absl::StrJoin(entries, ",\n"), "]}");
}

Metadata WithToken(const std::string& token) {
  return {{"authorization", absl::StrCat("Bearer ", token)}};
}

void AddTo(const Metadata& metadata, grpc::ClientContext* context) {
  for (const auto& [key, value] : metadata) context->AddMetadata(key, value);
}

grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& path, const Metadata& metadata) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  AddTo(metadata, &context);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  Wait(&queue);
  const grpc::Slice nothing;
  call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
  Wait(&queue);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  const bool answered = Wait(&queue);
  if (answered) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  Wait(&queue);
  return answered ? grpc::Status::OK : status;
}

AccessServer::AccessServer(const std::string& table, ServerOptions options) {
  options.listen = {"unix:" + folder_.File("socket"), "127.0.0.1:0"};
  options.socket_mode = "0666";
  CHECK_EQ(chmod(folder_.path().c_str(), 0755), 0);
  options.grpc.channelz = true;
  options.access_table = folder_.File("access.json");
  WriteTable(table);
  auto server = Server::Create(options);
  CHECK_OK(server.status());
  server_ = *std::move(server);
}

std::unique_ptr<Client> AccessServer::NewUnixClientOf(uid_t user) const {
  int fd = -1;
  std::thread connects([&] { fd = ConnectAs(user, folder_.File("socket")); });
  connects.join();
  if (fd < 0) return nullptr;
  return std::make_unique<Client>(
      grpc::CreateInsecureChannelFromFd("another user", fd));
}

void AccessServer::WriteTable(const std::string& table) {
  const std::string next = folder_.File("next");
  std::ofstream(next) << table;
  CHECK_EQ(rename(next.c_str(), folder_.File("access.json").c_str()), 0);
}

void AccessServer::WaitFor(grpc::StatusCode code,
                           const Metadata& metadata) const {
  const Client client = NewUnixClient();
  while (Call(client.channel(), "/qgemm.v1.Qgemm/GetServerInfo", metadata)
             .error_code() != code) {
    std::this_thread::yield();
  }
}

}  // namespace qgemm
