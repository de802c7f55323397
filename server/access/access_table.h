// SPDX-License-Identifier: Apache-2.0
//
// The operator's table of clients, as its file says it (docs/access.md): read
// strictly, and searched by what a connection or a call shows.

#ifndef QGEMM_SERVER_ACCESS_ACCESS_TABLE_H_
#define QGEMM_SERVER_ACCESS_ACCESS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "server/access/principal.h"

namespace qgemm {

// An entry of the table.
struct AccessClient {
  std::shared_ptr<const Principal> principal;
  // A proxy has no rights of its own: each of its calls names the client that
  // it comes from.
  bool is_proxy = false;
};

// Immutable.
class AccessTable {
 public:
  // Reads a table's JSON. Errors: INVALID_ARGUMENT names the entry, the field,
  // its value and what is legal.
  static absl::StatusOr<std::shared_ptr<const AccessTable>> Parse(
      absl::string_view text);

  // The client that matches "spiffe:spiffe://corp/a", "san:a.corp", "cn:a" or
  // "uid:1000"; null if none does. Borrowed.
  const AccessClient* FindName(const std::string& name) const;

  // The client with a token of that digest; null if none has it. Takes a time
  // that tells nothing of the digests in the table. Borrowed.
  const AccessClient* FindToken(const Sha256Digest& digest) const;

  size_t size() const { return clients_.size(); }

 private:
  friend class AccessTableReader;

  struct Token {
    Sha256Digest digest;
    size_t client = 0;
  };

  std::vector<AccessClient> clients_;
  std::unordered_map<std::string, size_t> names_;
  // By the first bytes of the digests.
  std::unordered_map<uint64_t, std::vector<Token>> tokens_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_ACCESS_ACCESS_TABLE_H_
