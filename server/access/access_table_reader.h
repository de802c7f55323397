// SPDX-License-Identifier: Apache-2.0
//
// Builds an AccessTable from its JSON. Strict: a table that is not wholly
// understood is refused, so that nobody has rights other than meant.

#ifndef QGEMM_SERVER_ACCESS_ACCESS_TABLE_READER_H_
#define QGEMM_SERVER_ACCESS_ACCESS_TABLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "base/strict_json.h"
#include "server/access/access_table.h"

namespace qgemm {

// The digest's first eight bytes, and all of them as text. Borrowed.
uint64_t LeadingBytes(const Sha256Digest& digest);
absl::string_view TextOf(const Sha256Digest& digest);

// Not thread-safe.
class AccessTableReader {
 public:
  // Errors: as AccessTable::Parse.
  static absl::StatusOr<std::shared_ptr<const AccessTable>> Read(
      absl::string_view text);

 private:
  using Json = strict_json::Json;

  AccessTableReader() : table_(std::make_shared<AccessTable>()) {}

  // `where` is the entry's place in error messages: "clients[0] (\"a\")".
  absl::Status AddClient(const Json& entry, std::string where);
  absl::Status AddMatches(const Json& entry, const std::string& where);
  absl::Status AddMatch(const Json& match, const std::string& where);
  absl::Status AddName(const std::string& name, const std::string& where);
  absl::Status AddToken(const std::string& hex, const std::string& where);

  const std::shared_ptr<AccessTable> table_;
  std::set<std::string> ids_;
  int tokens_of_client_ = 0;  // of the one in hand
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_ACCESS_ACCESS_TABLE_READER_H_
