// SPDX-License-Identifier: Apache-2.0
//
// Clients of an access table: the table's file, and connections whose calls
// show a client's token.

#ifndef QGEMM_TESTS_END_TO_END_TENANTS_H_
#define QGEMM_TESTS_END_TO_END_TENANTS_H_

#include <string>
#include <vector>

#include "server/server_options.h"
#include "tests/end_to_end/client.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {

// A client's entry. Its token is its id and "-token".
struct Tenant {
  std::string id;
  std::vector<std::string> names;
  std::vector<std::string> read;
  std::vector<std::string> rights = {"compute", "load"};
  std::string quota = "{}";  // JSON
};

// The table's file, while this lives.
class TenantTable {
 public:
  explicit TenantTable(const std::vector<Tenant>& tenants);

  // The options with the table.
  ServerOptions In(ServerOptions options) const;

 private:
  TemporaryFolder folder_;
};

// A connection of its own, as that tenant.
Client ConnectAs(const std::string& id, const std::string& address);

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_TENANTS_H_
