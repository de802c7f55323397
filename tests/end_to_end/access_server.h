// SPDX-License-Identifier: Apache-2.0
//
// A server with an access table that the test writes, and calls that show a
// token.

#ifndef QGEMM_TESTS_END_TO_END_ACCESS_SERVER_H_
#define QGEMM_TESTS_END_TO_END_ACCESS_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/server.h"
#include "server/server_options.h"
#include "tests/end_to_end/client.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {

// An entry of the table. Its names are all names.
struct TableClient {
  std::string id;
  std::vector<std::string> matches;  // of MatchToken, MatchUser, ...
  std::vector<std::string> rights;
  bool is_proxy = false;
};

std::string MatchToken(const std::string& token);
std::string MatchUser(int user);
// The user of this process.
std::string MatchThisUser();
std::string MatchName(const std::string& kind, const std::string& name);

std::string TableOf(const std::vector<TableClient>& clients);

// Metadata of calls, by key.
using Metadata = std::map<std::string, std::string>;
Metadata WithToken(const std::string& token);
void AddTo(const Metadata& metadata, grpc::ClientContext* context);

// Calls "/package.Service/Method", of whatever kind, with one empty message and
// returns once an answer or the end has come: OK for an answer.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& path, const Metadata& metadata = {});

// Listens on a Unix socket and a loopback port. Reflection and channelz are on.
class AccessServer {
 public:
  explicit AccessServer(const std::string& table,
                        ServerOptions options = ServerOptions());

  // Replaces the table's file; the server reads it soon.
  void WriteTable(const std::string& table);
  // Returns when the calls of that client have that outcome.
  void WaitFor(grpc::StatusCode code, const Metadata& metadata) const;

  // Null if this process may not be that user. Every user may connect.
  std::unique_ptr<Client> NewUnixClientOf(uid_t user) const;
  Client NewUnixClient() const { return Client(server_->addresses()[0]); }
  Client NewTcpClient() const { return Client(server_->addresses()[1]); }
  Server& server() { return *server_; }

 private:
  const TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_ACCESS_SERVER_H_
